"""What ships keeps what a step promises: on a trial and on a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentix.api import Scope, load
from agentix.plugins.experiments.steps.transport_step import TransportStep
from agentix.testing import StepCase, StepContract


def answered(trial_dir: Path) -> None:
    (trial_dir / "out").mkdir()
    (trial_dir / "out" / "answer.txt").write_text("42")


class TestTheStepOfATransport(StepContract):
    @pytest.fixture(autouse=True)
    def _installed(self, depot: str) -> None:
        """Its transport is there."""

    def plugin(self) -> TransportStep:
        return TransportStep(load("transport", "my-store"), name="ship_my_store")

    def case(self) -> StepCase:
        return StepCase(inputs={"dest": "shelf"}, scope=Scope.PER_TRIAL, prepare_trial=answered, ok=True)


class TestShip(StepContract):
    @pytest.fixture(autouse=True)
    def _installed(self, depot: str) -> None:
        """What it uses is there."""

    def plugin(self):
        return load("step", "ship")

    def case(self) -> StepCase:
        return StepCase(inputs={"using": "ship_my_store", "dest": "shelf"}, scope=Scope.PER_EXPERIMENT, ok=True)
