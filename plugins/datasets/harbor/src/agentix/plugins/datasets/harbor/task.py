"""One task directory: its `task.toml`, and where the parts of the task lie."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from agentix.api import DatasetError
from agentix.plugins.datasets.harbor.compose import compose_file
from agentix.plugins.datasets.harbor.schema import Artifact, CollectHook, Environment, Healthcheck, Step, TaskFile
from agentix.plugins.datasets.harbor.toml_file import read_task_file

TASK_FILE = "task.toml"
_CANARY = re.compile(r"(<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)


def without_canary(text: str) -> str:
    """The instruction without the comment lines at its head that mark benchmark data, and the blank ones below."""
    lines = text.split("\n")
    first = 0
    while first < len(lines) and _CANARY.fullmatch(lines[first].strip()):
        first += 1
    while first < len(lines) and not lines[first].strip():
        first += 1
    return "\n".join(lines[first:])


@dataclass(frozen=True, kw_only=True)
class VerifierImage:
    """Where a separate verifier runs."""

    environment: Environment
    directory: Path
    """What its image is built from, where no image is named."""
    image: str | None
    bundled: bool
    """Whether the image brings `/tests` with it."""


@dataclass(frozen=True)
class Stage:
    """One round of agent and verifier: a whole single-step task, or a step of a multi-step one."""

    task: Task
    step: Step | None = None

    @property
    def name(self) -> str | None:
        """The step's name; `None` for a single-step task."""
        return None if self.step is None else self.step.name

    @property
    def key(self) -> str:
        """The table of task.toml that the stage comes from, as a prefix for keys."""
        return "" if self.step is None else f"steps[{self.task.file.steps.index(self.step)}]."

    @property
    def directory(self) -> Path:
        """Where the stage's own files lie."""
        return self.task.directory if self.step is None else self.task.directory / "steps" / self.step.name

    @cached_property
    def instruction(self) -> str:
        """What to ask the agent for."""
        path = self.directory / "instruction.md"
        try:
            return without_canary(path.read_text("utf-8-sig"))
        except OSError as error:
            raise DatasetError(f"{path}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise DatasetError(f"{path}: not UTF-8 at byte {error.start}") from error

    @property
    def agent_timeout_s(self) -> float | None:
        """Seconds for the agent; `None` means no limit."""
        own = None if self.step is None else self.step.agent.timeout_sec
        return self.task.file.agent.timeout_sec if own is None else own

    @property
    def verifier_timeout_s(self) -> float:
        """Seconds for the tests."""
        if self.step is not None and "timeout_sec" in self.step.verifier.model_fields_set:
            return self.step.verifier.timeout_sec
        return self.task.file.verifier.timeout_sec

    @property
    def agent_user(self) -> str | None:
        """The user that the agent runs as; `None` means the environment's own."""
        own = None if self.step is None else self.step.agent.user
        return own or self.task.file.agent.user

    @property
    def verifier_user(self) -> str | None:
        """The user that the tests run as; `None` means the environment's own."""
        own = None if self.step is None else self.step.verifier.user
        return own or self.task.file.verifier.user

    @property
    def verifier_env(self) -> dict[str, str]:
        """Variables of the tests, not resolved yet."""
        return {**self.task.file.verifier.env, **({} if self.step is None else self.step.verifier.env)}

    @property
    def verifier_mode(self) -> Literal["shared", "separate"]:
        """Whether the tests run where the agent worked."""
        own = None if self.step is None else self.step.verifier.mode
        return own or self.task.file.verifier.mode or "shared"

    @property
    def healthcheck(self) -> Healthcheck | None:
        """The step's own healthcheck; the environment's is not repeated."""
        return None if self.step is None else self.step.healthcheck

    @property
    def collect_hooks(self) -> tuple[CollectHook, ...]:
        """Commands to run when the agent has ended, before anything is collected."""
        return self.task.file.verifier.collect + (() if self.step is None else self.step.verifier.collect)

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """What the task declares as artifacts, in order."""
        return self.task.file.artifacts + (() if self.step is None else self.step.artifacts)

    @property
    def tests(self) -> tuple[Path, ...]:
        """Directories that make up `/tests`, a later one over an earlier one."""
        candidates = dict.fromkeys((self.task.directory / "tests", self.directory / "tests"))
        return tuple(path for path in candidates if path.is_dir())

    @property
    def test_script(self) -> Path | None:
        """The `test.sh` that grades the stage."""
        return next((path for d in reversed(self.tests) if (path := d / "test.sh").is_file()), None)

    @property
    def solution(self) -> Path | None:
        """The directory that is played by `oracle`; `None` where there is no `solve.sh`."""
        for directory in dict.fromkeys((self.directory / "solution", self.task.directory / "solution")):
            if directory.is_dir():
                return directory if (directory / "solve.sh").is_file() else None
        return None

    @property
    def verifier_image(self) -> VerifierImage:
        """Where a separate verifier runs: its own image, one built from `tests/`, or the environment's."""
        file = self.task.file
        tables = [(file.verifier.environment, self.task.directory / "tests")]
        if self.step is not None:
            tables.insert(0, (self.step.verifier.environment, self.directory / "tests"))
        environment = next((table for table, _ in tables if table is not None), file.environment)
        for table, directory in tables:
            if table is not None and table.docker_image:
                image = table.docker_image
                return VerifierImage(environment=environment, directory=directory, image=image, bundled=True)
            if (directory / "Dockerfile").is_file() or compose_file(directory) is not None:
                return VerifierImage(environment=environment, directory=directory, image=None, bundled=True)
        return VerifierImage(
            environment=environment,
            directory=self.task.directory / "environment",
            image=file.environment.docker_image,
            bundled=False,
        )


@dataclass(frozen=True)
class Task:
    """One task."""

    directory: Path
    file: TaskFile

    @classmethod
    def load(cls, directory: Path) -> Task:
        """Read a task directory.

        Raises:
            DatasetError: task.toml is missing or malformed, or the task has no instruction or no tests.
        """
        if not directory.is_dir():
            raise DatasetError(f"{directory}: there is no such directory")
        if not (directory / TASK_FILE).is_file():
            raise DatasetError(f"{directory}: has no {TASK_FILE}, so it is no task")
        task = cls(directory, read_task_file(directory / TASK_FILE))
        problems = [problem for stage in task.stages for problem in _problems(stage)]
        if problems:
            raise DatasetError("\n".join(problems))
        return task

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The rounds of agent and verifier, in order."""
        return tuple(Stage(self, step) for step in self.file.steps) or (Stage(self),)

    @property
    def is_multi_step(self) -> bool:
        """Whether task.toml has `[[steps]]`."""
        return bool(self.file.steps)


def _problems(stage: Stage) -> list[str]:
    found = []
    if stage.step is not None and not stage.directory.is_dir():
        return [f"{stage.directory}: there is no such directory for the step {stage.name!r}"]
    if not (stage.directory / "instruction.md").is_file():
        found.append(f"{stage.directory / 'instruction.md'}: there is no such file")
    else:
        try:
            _ = stage.instruction
        except DatasetError as error:
            found.append(str(error))
    bundled = stage.verifier_mode == "separate" and stage.verifier_image.bundled
    if stage.test_script is None and not bundled and stage.task.file.environment.os == "linux":
        found.append(f"{stage.directory / 'tests' / 'test.sh'}: there is no such file")
    return found
