"""Reads trajectories that anybody wrote, checks them, and says exactly what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from agentix.errors import TrajectoryError
from agentix.models import Usage
from agentix.trajectory.json_stream import read_object
from agentix.trajectory.models import Header, Step
from agentix.trajectory.usage import usage_of_step, with_totals

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class TrajectorySummary:
    """What a trajectory amounts to."""

    header: Header
    steps: int
    usage: Usage


def read_trajectory(path: Path) -> dict[str, Any]:
    """A whole trajectory as plain data, checked.

    Raises:
        TrajectoryError: It is not ATIF.
        OSError: It cannot be read.
    """
    document: dict[str, Any] = {}
    steps: list[Any] = []
    for key, value in _members(path):
        if key is None:
            steps.append(value)
        else:
            document[key] = steps if key == "steps" else value
    check_trajectory(document, where=str(path))
    return document


def check_trajectory(document: Mapping[str, Any], *, where: str = "trajectory") -> TrajectorySummary:
    """Check a trajectory that is in memory.

    Raises:
        TrajectoryError: It is not ATIF; the message names `where` and the place in it.
    """
    counting = _Counting(where)
    steps = document.get("steps")
    if not isinstance(steps, list):
        raise TrajectoryError(f"{where}: steps: a list is missing")
    for step in steps:
        counting.add(step)
    return counting.summary({key: value for key, value in document.items() if key != "steps"})


def summarize_trajectory(path: Path) -> TrajectorySummary:
    """Check a trajectory of any length, holding one step at a time in memory.

    Raises:
        TrajectoryError: It is not ATIF.
        OSError: It cannot be read.
    """
    counting = _Counting(str(path))
    rest: dict[str, Any] = {}
    seen = False
    for key, value in _members(path):
        if key is None:
            counting.add(value)
        elif key == "steps":
            seen = True
        else:
            rest[key] = value
    if not seen:
        raise TrajectoryError(f"{path}: steps: a list is missing")
    return counting.summary(rest)


def iter_steps(path: Path) -> Iterator[Step]:
    """The steps of a trajectory of any length, one at a time.

    Raises:
        TrajectoryError: It is not ATIF; steps before the fault have been yielded by then.
        OSError: It cannot be read.
    """
    counting = _Counting(str(path))
    for key, value in _members(path):
        if key is None:
            yield counting.add(value)


class _Counting:
    def __init__(self, where: str) -> None:
        self._where = where
        self._steps = 0
        self._usage = Usage(turns=0, tool_calls=0)

    def add(self, value: Any) -> Step:
        place = f"{self._where}: steps.{self._steps}"
        step = _checked(Step, value, place)
        self._steps += 1
        if step.step_id != self._steps:
            raise TrajectoryError(f"{place}.step_id: is {step.step_id}, should be {self._steps}")
        self._usage = self._usage + usage_of_step(step)
        return step

    def summary(self, rest: Mapping[str, Any]) -> TrajectorySummary:
        header = _checked(Header, rest, self._where)
        usage = self._usage if header.final_metrics is None else with_totals(self._usage, header.final_metrics)
        return TrajectorySummary(header=header, steps=self._steps, usage=usage)


def _checked(model: type[_Model], value: Any, place: str) -> _Model:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        at = ".".join(map(str, (place, *first["loc"]) if place.count("steps.") else first["loc"]))
        lead = at if place.count("steps.") else f"{place}: {at}"
        raise TrajectoryError(f"{lead.rstrip(': ')}: {first['msg'].removeprefix('Value error, ')}") from None
    except RecursionError:
        raise TrajectoryError(f"{place}: the nesting is too deep") from None


def _members(path: Path) -> Iterator[tuple[str | None, Any]]:
    try:
        with path.open(encoding="utf-8") as source:
            seen: set[str] = set()
            for key, value in read_object(source, array="steps"):
                if key is not None and key in seen:
                    raise ValueError(f"the key {key!r} is there twice")
                if key is not None:
                    seen.add(key)
                yield key, value
    except ValueError as error:
        raise TrajectoryError(f"{path}: not JSON that holds a trajectory: {error}") from None
