"""Attribution: every failure of a trial belongs to exactly one part of it."""

from __future__ import annotations

import asyncio
import math
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any, get_args

import anyio

from agentix.errors import AgentFailed, EnvFailed, HostError, SandboxGone, TrialError, VerifierError, WireError
from agentix.errors.one_line import on_one_line
from agentix.models import Boundary, Failure, FailureCode

_UNCODED: dict[str, type[TrialError]] = {
    "sandbox": HostError,
    "dataset": EnvFailed,
    "agent": AgentFailed,
    "scorer": VerifierError,
    "step": HostError,
    "host": HostError,
}
_TRACEBACK_CHARS = 20_000


class boundary:  # noqa: N801 - used as a statement: `with boundary("agent"):`
    """What is raised inside belongs to one part of the trial.

    An exception that has a code keeps it and any other becomes the part's own error, with the exception as
    its cause. What already crossed a boundary stays with the first one. Cancellation passes through.

    Args:
        where: The part.
        plugin: The plugin or other object whose code runs inside.
        detail: The failure detail of an exception that has none.
    """

    __slots__ = ("_detail", "_plugin", "_where")

    def __init__(self, where: Boundary, *, plugin: object = None, detail: str | None = None) -> None:
        self._where: Boundary = where
        self._plugin = plugin
        self._detail = detail

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        if exc is None:
            return
        cause = _one_of(exc)
        if isinstance(cause, TrialError):
            self.mark(cause)
            if cause is not exc:
                raise cause
        elif isinstance(cause, Exception | SystemExit) or is_stray_cancellation(cause):
            error = _UNCODED[self._where](described(cause))
            self.mark(error)
            raise error from cause
        elif cause is not exc:
            raise cause

    def mark(self, error: TrialError) -> None:
        """Attribute an error here, unless it belongs elsewhere already."""
        error.detail = error.detail or self._detail
        if error.boundary is None:
            lost = isinstance(error, SandboxGone | WireError)
            error.boundary = "sandbox" if lost else self._where
            error.plugin = None if self._plugin is None or lost else plugin_name(self._plugin)


def described(exc: BaseException) -> str:
    """An exception in one line, with its type."""
    text = on_one_line(str(exc))
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__


def plugin_name(plugin: object) -> str:
    """How a failure calls the plugin whose code failed."""
    if isinstance(plugin, str):
        return plugin
    # Only a failure needs the names, and finding them reads the metadata of every distribution.
    from agentix.registry import label_of

    return label_of(plugin)


def failure_of(error: TrialError) -> Failure:
    """The record of an error; one that had no code brings its traceback."""
    cause = error.__cause__
    trace = None
    if cause is not None and not isinstance(cause, TrialError):
        trace = "".join(traceback.format_exception(cause))[-_TRACEBACK_CHARS:]
    return Failure(
        code=FailureCode(error.code),
        message=str(error),
        detail=error.detail,
        boundary=_boundary_of(error),
        plugin=error.plugin,
        traceback=trace,
    )


def is_stray_cancellation(exc: BaseException) -> bool:
    """Whether code let a cancellation escape that nobody asked of this task.

    An agent that awaits a task which was cancelled would otherwise end the worker without a result.
    """
    if not isinstance(exc, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and not task.cancelling() and anyio.current_effective_deadline() != -math.inf


def _boundary_of(error: TrialError) -> Boundary:
    for known in get_args(Boundary):
        if error.boundary == known:
            return known  # type: ignore[no-any-return]
    return "host"


def _leaves(exc: BaseException) -> Iterator[BaseException]:
    if isinstance(exc, BaseExceptionGroup):
        for inner in exc.exceptions:
            yield from _leaves(inner)
    else:
        yield exc


def _one_of(exc: BaseException) -> BaseException:
    """The exception of a group that decides: one that must pass through, else one with a code, else the first."""
    if not isinstance(exc, BaseExceptionGroup):
        return exc
    leaves: list[Any] = list(_leaves(exc))
    passing = [leaf for leaf in leaves if not isinstance(leaf, Exception | SystemExit)]
    coded = [leaf for leaf in leaves if isinstance(leaf, TrialError)]
    chosen: BaseException = (passing or coded or leaves)[0]
    return chosen
