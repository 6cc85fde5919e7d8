"""The contract of a provider, on sandboxes that are plain processes, and on providers with one fault each."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from agentix.errors import SandboxGone
from agentix.models import Capability, SandboxConfig, SandboxInfo
from agentix.sandbox import HostProcessProvider
from agentix.testing import ProviderContract, run_checks


class TestHostProcess(ProviderContract):
    def plugin(self) -> HostProcessProvider:
        return HostProcessProvider()


class LeavesOnCancel(HostProcessProvider):
    async def create(self, config: SandboxConfig, runtime: Any) -> SandboxInfo:
        info = await super().create(config, runtime)
        await anyio.sleep(0.01)
        return info


class LeavesOnFailure(HostProcessProvider):
    async def create(self, config: SandboxConfig, runtime: Any) -> SandboxInfo:
        info = await super().create(config.model_copy(update={"mounts": ()}), runtime)
        self.refuse(config)
        return info


class LosesLabels(HostProcessProvider):
    async def list(self, labels: Any) -> list[SandboxInfo]:
        return await super().list({})


class DeletesOnce(HostProcessProvider):
    async def delete(self, sandbox_id: str) -> None:
        if not [info for info in await self.list({}) if info.id == sandbox_id]:
            raise SandboxGone(f"{sandbox_id} is gone already")
        await super().delete(sandbox_id)


class ForgetsToDelete(HostProcessProvider):
    async def delete(self, sandbox_id: str) -> None:
        if sandbox_id in self._sandboxes and self._sandboxes[sandbox_id].process is not None:
            await super().delete(sandbox_id)


class IgnoresLimits(HostProcessProvider):
    def refuse(self, config: SandboxConfig) -> None: ...


class ClaimsTooMuch(HostProcessProvider):
    capabilities = frozenset({Capability.ISOLATION})


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("provider", "check"),
    [
        (LeavesOnCancel, "create_cancelled_leaves_nothing"),
        (LeavesOnFailure, "create_failed_leaves_nothing"),
        (LosesLabels, "list_finds_by_labels"),
        (DeletesOnce, "delete_can_be_repeated"),
        (ForgetsToDelete, "session_deletes_at_its_end"),
        (ForgetsToDelete, "session_passes_errors_on"),
        (ForgetsToDelete, "session_cancelled_is_deleted"),
        (IgnoresLimits, "refuses_memory_limit"),
        (IgnoresLimits, "create_failed_leaves_nothing"),
        (ClaimsTooMuch, "host_files_are_hidden"),
        (ClaimsTooMuch, "host_processes_are_hidden"),
        (ClaimsTooMuch, "sandboxes_are_apart"),
    ],
)
async def test_a_faulty_provider_fails_the_check_of_the_promise(provider: Any, check: str) -> None:
    (result,) = await run_checks("provider", provider(), only=[check])
    assert result.outcome == "failed"
    assert result.message
