"""The gate: every case is checked before any trial runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import anyio
import anyio.to_thread

from agentix.api import Case, HostError
from agentix.cli.api import plural
from agentix.plugins.experiments.gate.cache import VerdictCache
from agentix.plugins.experiments.gate.checking import CaseCheck, CheckedCase, one_line
from agentix.plugins.experiments.gate.setting import GateSetting
from agentix.plugins.experiments.steps import StepResult

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """What the gate let pass."""

    cases: tuple[Case, ...]
    """Those that may run, in their order, with the content that they have now."""
    rejected: dict[str, str] = field(default_factory=dict)
    """Why each of the others may not, by label."""
    unknown: dict[str, str] = field(default_factory=dict)
    """Why nothing was found out about the cases that a check could not be made on, by label."""
    stopped: str | None = None
    """Why nothing may run; `None` where the run goes on without those."""
    lines: tuple[str, ...] = ()
    """What was found, case by case."""
    warnings: tuple[str, ...] = ()
    found: dict[str, str | None] = field(default_factory=dict)
    """Hashes that repaired cases came with, by label."""


async def run_gate(cases: Sequence[Case], setting: GateSetting) -> GateResult:
    """Run the per-case steps on every case.

    A case that is rejected stops the run, once all are checked, so that all of them are known. A check that could not
    be made stops it at once: no other case is begun. With `on_failure: skip` the run goes on without the case. One that
    could not be checked is never one that was rejected.

    Args:
        cases: As they were resolved.
        setting: How they are checked.

    Raises:
        HostError: A check could not be made at all, such as for want of room.
    """
    if not setting.steps:
        return GateResult(cases=tuple(cases))
    cache = VerdictCache(setting.cache)
    known = await anyio.to_thread.run_sync(cache.read)
    if cache.notice is not None and not setting.regate:
        setting.warn(cache.notice)
    checked: dict[int, CheckedCase] = {}
    waiting = iter(enumerate(cases))
    broken = False
    failed: list[HostError] = []

    async def work() -> None:
        nonlocal broken
        for number, case in waiting:
            try:
                result = checked[number] = await CaseCheck(case, setting, known).run()
            except (OSError, HostError) as error:
                broken = True
                said = error.message if isinstance(error, HostError) else f"{error.filename}: {error.strerror}"
                failed.append(HostError(f"case {case.label} could not be checked: {said}"))
                return
            ended = result.stopped_by
            broken = broken or (ended is not None and ended.verdict == "failed" and ended.reaction == "fail")
            if broken:
                return

    async with anyio.create_task_group() as group:
        for _ in range(min(setting.concurrency, len(cases))):
            group.start_soon(work)
    if failed:
        raise failed[0]
    return _result([checked[number] for number in sorted(checked)], unchecked=len(cases) - len(checked))


def _result(checked: Sequence[CheckedCase], *, unchecked: int) -> GateResult:
    ended = [(c, c.stopped_by) for c in checked if c.stopped_by is not None]
    rejected = {c.case.label: _why(by) for c, by in ended if by.verdict == "rejected"}
    unknown = {c.case.label: _why(by) for c, by in ended if by.verdict != "rejected"}
    fatal = [c.case.label for c, by in ended if by.reaction == "fail"]
    passed = [c for c in checked if c.stopped_by is None]
    stopped = None
    if fatal:
        left = f" ({unchecked} not checked)" if unchecked else ""
        told = [_told(len(checked), {k: rejected[k] for k in fatal if k in rejected}, "did not pass the gate")]
        told.append(_told(len(checked), {k: unknown[k] for k in fatal if k in unknown}, "could not be checked"))
        stopped = f"{'; '.join(line for line in told if line)}{left}"
    elif not passed:
        stopped = "the gate left out every case" + (f": {could_not_check(unknown)}" if unknown else "")
    return GateResult(
        cases=tuple(c.case for c in passed),
        rejected=rejected,
        unknown=unknown,
        stopped=stopped,
        lines=tuple(line for c in checked for line in c.lines),
        warnings=tuple(warning for c in checked for warning in c.warnings),
        found={c.case.label: c.original.sha256 for c in checked if c.repaired},
    )


def _why(ended: StepResult) -> str:
    return one_line(f"{ended.step}: {ended.message}")


def could_not_check(unknown: Mapping[str, str]) -> str:
    """The cases that nothing was found out about, in one line."""
    return f"{plural(len(unknown), 'case')} could not be checked: {_reasons(unknown)}"


def _told(count: int, cases: Mapping[str, str], what: str) -> str:
    return f"{len(cases)} of {plural(count, 'case')} {what}: {_reasons(cases)}" if cases else ""


def _reasons(cases: Mapping[str, str]) -> str:
    more = f"; and {len(cases) - _SHOWN} more" if len(cases) > _SHOWN else ""
    return "; ".join(f"case {label}: {why}" for label, why in list(cases.items())[:_SHOWN]) + more
