"""For authors of plugins: the contract checks, cases for them, and test classes for pytest.

Nothing is imported before it is used: pytest loads this package in every test suite.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentix.testing.cases import AgentCase, DatasetCase, ProviderCase, StepCase, TransportCase
    from agentix.testing.checks import Check, CheckResult, NotApplicable, PromiseBroken, expect
    from agentix.testing.contracts import (
        AgentContract,
        DatasetContract,
        ProviderContract,
        StepContract,
        TransportContract,
    )
    from agentix.testing.distributions import write_distribution
    from agentix.testing.fakes import FakeAgent, FakeDataset, FakeProvider, fake_instance, right_patch
    from agentix.testing.running import checks_of, run_checks

__all__ = [
    "AgentCase",
    "AgentContract",
    "Check",
    "CheckResult",
    "DatasetCase",
    "DatasetContract",
    "FakeAgent",
    "FakeDataset",
    "FakeProvider",
    "NotApplicable",
    "PromiseBroken",
    "ProviderCase",
    "ProviderContract",
    "StepCase",
    "StepContract",
    "TransportCase",
    "TransportContract",
    "checks_of",
    "expect",
    "fake_instance",
    "right_patch",
    "run_checks",
    "write_distribution",
]

_HOMES = {
    "agentix.testing.cases": ("AgentCase", "DatasetCase", "ProviderCase", "StepCase", "TransportCase"),
    "agentix.testing.checks": ("Check", "CheckResult", "NotApplicable", "PromiseBroken", "expect"),
    "agentix.testing.contracts": (
        "AgentContract",
        "DatasetContract",
        "ProviderContract",
        "StepContract",
        "TransportContract",
    ),
    "agentix.testing.distributions": ("write_distribution",),
    "agentix.testing.fakes": ("FakeAgent", "FakeDataset", "FakeProvider", "fake_instance", "right_patch"),
    "agentix.testing.running": ("checks_of", "run_checks"),
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            value: object = getattr(import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
