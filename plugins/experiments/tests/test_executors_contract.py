"""The executors keep what a step promises, on a trial in a sandbox of a fake provider."""

from __future__ import annotations

from pathlib import Path

from agentix.api import AgentUse, Case, Trial, TrialWork, load
from agentix.testing import FakeAgent, FakeDataset, FakeProvider, StepCase, StepContract, fake_instance


def work(case: Case, directory: Path) -> TrialWork:
    return TrialWork(
        trial=Trial(trial_id="case-agent-1", instance=fake_instance(1)),
        case=case,
        agent_use=AgentUse(name="agent", ref="agent"),
        load_agent=FakeAgent,
        load_dataset=FakeDataset,
        provider=FakeProvider(),
        directory=directory,
    )


class TestRollout(StepContract):
    def plugin(self):
        return load("step", "rollout")

    def case(self) -> StepCase:
        return StepCase(inputs={}, work=work, ok=True)


class TestLocal(StepContract):
    def plugin(self):
        return load("step", "local")

    def case(self) -> StepCase:
        return StepCase(inputs={}, work=work, ok=True)
