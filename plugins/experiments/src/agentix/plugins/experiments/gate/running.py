"""The gate: every case is checked before any trial runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
import anyio.to_thread

from agentix.api import Case, HostError
from agentix.plugins.experiments.gate.cache import VerdictCache
from agentix.plugins.experiments.gate.checking import CaseCheck, CheckedCase
from agentix.plugins.experiments.gate.setting import GateSetting


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """What the gate let pass."""

    cases: tuple[Case, ...]
    """Those that may run, in their order, with the content that they have now."""
    rejected: dict[str, str] = field(default_factory=dict)
    """Why each of the others may not, by label."""
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
    be made stops it at once: no other case is begun. With `on_failure: skip` the run goes on without the case.

    Args:
        cases: As they were resolved.
        setting: How they are checked.

    Raises:
        HostError: A check could not be made at all, such as for want of room.
    """
    if not setting.steps:
        return GateResult(cases=tuple(cases))
    known = await anyio.to_thread.run_sync(VerdictCache(setting.cache).read)
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
    rejected = {
        c.case.label: f"{c.stopped_by.step}: {c.stopped_by.message}" for c in checked if c.stopped_by is not None
    }
    fatal = [c for c in checked if c.stopped_by is not None and c.stopped_by.reaction == "fail"]
    passed = [c for c in checked if c.stopped_by is None]
    stopped = None
    if fatal:
        reasons = "; ".join(f"case {c.case.label}: {rejected[c.case.label]}" for c in fatal[:5])
        more = f"; and {len(fatal) - 5} more" if len(fatal) > 5 else ""
        left = f" ({unchecked} not checked)" if unchecked else ""
        stopped = f"{len(fatal)} of {len(checked)} cases did not pass the gate{left}: {reasons}{more}"
    elif not passed:
        stopped = "the gate left out every case"
    return GateResult(
        cases=tuple(c.case for c in passed),
        rejected=rejected,
        stopped=stopped,
        lines=tuple(line for c in checked for line in c.lines),
        warnings=tuple(warning for c in checked for warning in c.warnings),
        found={c.case.label: c.original.sha256 for c in checked if c.repaired},
    )
