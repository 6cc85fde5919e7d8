"""The clock of one attempt: how long each phase may take and how long it took."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType

import anyio

from agentix.errors import TrialError
from agentix.models import Limits, Phase, TimeoutRule

_NO_RULE = TimeoutRule()
_DEFAULTS = Limits()


class Phases:
    """Limits and timings of one attempt.

    A phase's limit is the run's own where the run gave one, else what the task asks for, else the default;
    the run's timeout rule is applied to it.

    Args:
        task: Limits of the instance; only explicit values count.
        run: Limits of the run, which win over the task's.
        rules: How the run changes timeouts.
        started: Told the name of each phase that starts.
    """

    def __init__(
        self,
        *,
        task: Limits | None = None,
        run: Limits | None = None,
        rules: Mapping[Phase, TimeoutRule] | None = None,
        started: Callable[[str], None] | None = None,
    ) -> None:
        self.limits = _DEFAULTS
        for limits in (task, run):
            if limits is not None and limits.model_fields_set:
                self.limits = self.limits.merged(limits)
        self.seconds: dict[str, float] = {}
        self.latest: str | None = None
        """The phase that began last."""
        self.started = started
        self._explicit = frozenset[str]() if run is None else run.model_fields_set
        self._rules = rules or {}

    def apart(self) -> Phases:
        """The same limits with timings of their own, for what is done besides."""
        other = Phases(rules=self._rules)
        other.limits, other._explicit = self.limits, self._explicit
        return other

    def limit(self, phase: Phase, *, task_s: float | None = None) -> float | None:
        """Seconds that a phase may take, or `None` without a limit.

        Args:
            phase: The phase.
            task_s: What the task itself asks for at this point.
        """
        value = self.limits.seconds(phase)
        if task_s is not None and f"{phase}_s" not in self._explicit:
            value = task_s
        return self._rules.get(phase, _NO_RULE).apply(value)

    def phase(
        self,
        phase: Phase,
        error: type[TrialError],
        *,
        task_s: float | None = None,
        detail: str | None = None,
        name: str | None = None,
    ) -> RunningPhase:
        """A statement to run within a phase's limit: `with phases.phase("setup", EnvFailed):`.

        Args:
            phase: The phase.
            error: Raised where the limit is exceeded.
            task_s: What the task itself asks for at this point.
            detail: The error's detail, by default the phase and `_timeout`; `""` for none.
            name: How the error calls the phase.
        """
        limit = self.limit(phase, task_s=task_s)
        return RunningPhase(self, phase, limit, error, f"{phase}_timeout" if detail is None else detail, name or phase)

    def begin(self, phase: Phase) -> None:
        """Tell that a phase begins."""
        self.latest = phase
        if self.started is not None:
            self.started(phase)

    def add(self, phase: Phase, seconds: float) -> None:
        """Count time that was spent in a phase."""
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds


class RunningPhase:
    """One phase while it runs."""

    __slots__ = ("_detail", "_error", "_limit", "_name", "_phase", "_phases", "_scope", "_started")

    def __init__(
        self,
        phases: Phases,
        phase: Phase,
        limit: float | None,
        error: type[TrialError],
        detail: str,
        name: str,
    ) -> None:
        self._phases = phases
        self._phase: Phase = phase
        self._limit = limit
        self._error = error
        self._detail = detail
        self._name = name
        self._scope: anyio.CancelScope | None = None
        self._started = 0.0

    @property
    def expired(self) -> bool:
        """Whether the limit was reached, even if what ran inside returned all the same."""
        return self._scope is not None and self._scope.cancel_called

    def __enter__(self) -> RunningPhase:
        self._phases.begin(self._phase)
        self._started = time.perf_counter()
        if self._limit is not None:
            self._scope = anyio.CancelScope(deadline=anyio.current_time() + self._limit)
            self._scope.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        swallowed = False
        try:
            if self._scope is not None:
                # trio's scope also returns True where there was nothing to swallow.
                swallowed = bool(self._scope.__exit__(kind, exc, tb)) and exc is not None
        finally:
            self._phases.add(self._phase, time.perf_counter() - self._started)
        # What code raises while it is being stopped tells less than that it was stopped.
        if swallowed or (isinstance(exc, Exception) and self.expired):
            raise timeout_error(self._name, self._limit, self._error, detail=self._detail) from exc


def timeout_error(phase: str, limit: float | None, error: type[TrialError], *, detail: str) -> TrialError:
    """The error of a phase that took longer than its limit."""
    return error(f"{phase} exceeded its limit of {limit or 0:g} s", detail=detail)
