"""The contract checks as pytest test classes: subclass one, and say how to make the plugin.

class TestMine(ProviderContract):
def plugin(self):
return MyProvider()
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from agentix.registry import Kind
from agentix.testing.cases import AgentCase, Case, DatasetCase, ProviderCase, StepCase, TransportCase
from agentix.testing.pytest_plugin import RESULTS
from agentix.testing.running import checks_of, run_checks


class Contract:
    """What the five classes have in common."""

    kind: ClassVar[Kind]
    waivers: ClassVar[Mapping[str, str]] = {}
    """Reasons, by the name of the check that may fail for that reason."""

    def plugin(self) -> object:
        """Make the plugin; called once for each check."""
        raise NotImplementedError(f"{type(self).__name__} has to say how to make its plugin")

    def case(self) -> Case | None:
        """How to try it; the default case of the kind if this is not overridden."""
        return None

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make one test of each check."""
        if "agentix_check" in metafunc.fixturenames:
            metafunc.parametrize("agentix_check", [check.name for check in checks_of(self.kind)])

    @pytest.mark.anyio
    async def test_contract(self, agentix_check: str, request: pytest.FixtureRequest) -> None:
        """The promise is kept, or there is a reason why it does not apply."""
        (result,) = await run_checks(
            self.kind,
            self.plugin(),
            case=self.case(),
            waivers=self.waivers,
            only=[agentix_check],
        )
        results: list[Any] = request.config.stash.setdefault(RESULTS, [])
        results.append((request.node.nodeid, result))
        if result.outcome == "failed":
            pytest.fail(f"{result.promise}\n{result.message}", pytrace=False)
        if result.outcome in ("skipped", "waived"):
            pytest.skip(result.message)


class ProviderContract(Contract):
    """The contract of a sandbox provider."""

    kind = "provider"

    def case(self) -> ProviderCase | None:
        """How to try the provider."""
        return None


class DatasetContract(Contract):
    """The contract of a dataset."""

    kind = "dataset"

    def case(self) -> DatasetCase | None:
        """How to try the dataset; without a provider only what needs no sandbox is checked."""
        return None


class AgentContract(Contract):
    """The contract of an agent."""

    kind = "agent"

    def case(self) -> AgentCase | None:
        """How to try the agent; without a provider only what needs no sandbox is checked."""
        return None


class StepContract(Contract):
    """The contract of a step."""

    kind = "step"

    def case(self) -> StepCase | None:
        """How to try the step; without inputs it is not run."""
        return None


class TransportContract(Contract):
    """The contract of a transport."""

    kind = "transport"

    def case(self) -> TransportCase | None:
        """How to try the transport; without inputs nothing is shipped."""
        return None
