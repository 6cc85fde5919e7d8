"""Our steps keep what a step promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentix.api import Scope, list_plugins, load
from agentix.testing import StepCase, StepContract


def some_files(directory: Path) -> None:
    (directory / "out").mkdir()
    (directory / "out" / "agent.log").write_text("it went well\n")


class TestAdmission(StepContract):
    def plugin(self):
        return load("step", "admission")

    def case(self) -> StepCase:
        return StepCase(inputs={"trials": 2}, ok=True)


class TestAdmissionOfABrokenCase(StepContract):
    def plugin(self):
        return load("step", "admission")

    def case(self) -> StepCase:
        return StepCase(inputs={}, rewards={"oracle": 0.5, "nop": 0.0}, ok=False)


class TestGuardOfATrial(StepContract):
    def plugin(self):
        return load("step", "guard")

    def case(self) -> StepCase:
        return StepCase(inputs={"min_reward": 1, "require_measured": True}, ok=True)


class TestGuardOfARun(StepContract):
    def plugin(self):
        return load("step", "guard")

    def case(self) -> StepCase:
        return StepCase(inputs={"min_mean_reward": 0.6}, scope=Scope.PER_EXPERIMENT, ok=False)


class TestRedact(StepContract):
    def plugin(self):
        return load("step", "redact")

    def case(self) -> StepCase:
        return StepCase(inputs={"keys": "required"}, prepare_trial=some_files, ok=True)


@pytest.mark.parametrize("format", ["md", "json", "csv", "html"])
class TestReport(StepContract):
    @pytest.fixture(autouse=True)
    def chosen(self, format: str) -> None:
        self.format = format

    def plugin(self):
        return load("step", "report")

    def case(self) -> StepCase:
        return StepCase(inputs={"format": self.format}, writes=(f"report.{self.format}",), ok=True)


class TestReportThatAppends(StepContract):
    def plugin(self):
        return load("step", "report")

    def case(self) -> StepCase:
        return StepCase(inputs={"dest": "all.jsonl", "append": True}, writes=("all.jsonl",), ok=True)


@pytest.mark.parametrize("format", ["tar", "tar.gz", "tar.zst", "zip"])
class TestArchiveOfATrial(StepContract):
    @pytest.fixture(autouse=True)
    def chosen(self, format: str) -> None:
        self.format = format

    def plugin(self):
        return load("step", "archive")

    def case(self) -> StepCase:
        return StepCase(inputs={"format": self.format}, prepare_trial=some_files, ok=True)


class TestArchiveOfARun(StepContract):
    def plugin(self):
        return load("step", "archive")

    def case(self) -> StepCase:
        return StepCase(inputs={"shard": 1}, scope=Scope.PER_EXPERIMENT, ok=True)


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
class TestDataset(StepContract):
    @pytest.fixture(autouse=True)
    def chosen(self, format: str) -> None:
        self.format = format

    def plugin(self):
        return load("step", "dataset")

    def case(self) -> StepCase:
        return StepCase(inputs={"format": self.format, "license": "CC-BY-4.0"}, ok=True)


def test_no_step_of_ours_is_left_out():
    ours = {info.name for info in list_plugins("step") if info.distribution == "agentix-rollouts-steps"}
    assert ours == {"admission", "archive", "dataset", "guard", "redact", "report"}
