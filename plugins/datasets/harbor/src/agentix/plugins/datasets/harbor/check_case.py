"""The step `check_case`: whether a task directory is whole, before anything expensive runs."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import anyio.to_thread
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from agentix.api import DatasetError, Scope, StepContext, StepOutcome
from agentix.plugins.datasets.harbor.task import TASK_FILE, Task
from agentix.plugins.datasets.harbor.toml_file import unknown_keys


def _inside(text: str) -> str:
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(f"{text!r} is no path inside of a case")
    return text


def _dotted(text: str) -> str:
    if not all(text.split(".")):
        raise ValueError(f"{text!r} is no key; write it like metadata.difficulty")
    return text


class CheckCaseInputs(BaseModel):
    """What a case has to have besides what every task needs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    require: tuple[Annotated[str, Field(min_length=1), AfterValidator(_inside)], ...] = (TASK_FILE, "environment")
    """Files and directories, relative to the case. A directory has to have something in it."""
    require_fields: tuple[Annotated[str, Field(min_length=1), AfterValidator(_dotted)], ...] = ()
    """Keys of task.toml, such as `metadata.difficulty`, that have to have a value."""


class CheckCase:
    """Refuse a case that is no whole Harbor task.

    Its task.toml has to be valid, with an instruction and tests for every step of it; everything that is missing is
    told at once.
    """

    scopes = frozenset({Scope.PER_CASE})
    Inputs = CheckCaseInputs

    async def run(self, ctx: StepContext, inputs: CheckCaseInputs) -> StepOutcome:
        """Look at the case; nothing of it is run.

        Raises:
            DatasetError: The case is no directory, so that there is nothing to look at.
        """
        if ctx.case is None or ctx.case.directory is None:
            raise DatasetError("check_case looks at directories, and this case is none")
        directory = ctx.case.directory
        found, remarks = await anyio.to_thread.run_sync(_look, directory, inputs)
        return StepOutcome(
            ok=not found, message="; ".join(found or remarks), outputs={"problems": found, "remarks": remarks}
        )


def _look(directory: Path, inputs: CheckCaseInputs) -> tuple[list[str], list[str]]:
    remarks: list[str] = []
    found = [f"there is no {name}" if missing else f"{name} is empty" for name, missing in _absent(directory, inputs)]
    try:
        task = Task.load(directory)
    except DatasetError as error:
        # The same file is not told twice.
        known = {f"there is no {name}" for name in (TASK_FILE,) if f"there is no {name}" in found}
        found += [] if known else [line.replace(f"{directory}/", "") for line in error.message.splitlines()]
        return found, remarks
    for key, near in unknown_keys(task.file):
        remarks.append(f"unknown key {key} in {TASK_FILE}" + (f", did you mean {near}?" if near else ""))
    values = tomllib.loads((directory / TASK_FILE).read_text("utf-8-sig"))
    found += [f"{TASK_FILE} has no {key}" for key in inputs.require_fields if not _has(values, key)]
    return found, remarks


def _absent(directory: Path, inputs: CheckCaseInputs) -> Iterator[tuple[str, bool]]:
    for name in inputs.require:
        path = directory / name
        if not path.exists():
            yield name, True
        elif path.is_dir() and not any(path.iterdir()):
            yield name, False


def _has(values: Mapping[str, Any], key: str) -> bool:
    here: Any = values
    for part in key.split("."):
        if not isinstance(here, Mapping) or part not in here:
            return False
        here = here[part]
    return here not in ("", [], {})
