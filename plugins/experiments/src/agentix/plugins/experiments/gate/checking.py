"""All checks of one case, with the rounds of repair that they ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import anyio.to_thread

from agentix.api import Case, Rollout, StepOutcome
from agentix.cli.api import short
from agentix.plugins.experiments.gate.cache import CachedVerdict, VerdictCache
from agentix.plugins.experiments.gate.repair import RepairFailed, recall, recalls, remember, repair, write_back
from agentix.plugins.experiments.gate.setting import GateSetting
from agentix.plugins.experiments.steps import ResolvedStep, StepResult, concluded, run_step

_LONGEST = 10_000


@dataclass(kw_only=True)
class CheckedCase:
    """What became of a case."""

    original: Case
    case: Case
    """With the content that it has now."""
    stopped_by: StepResult | None = None
    """The step after which nothing more was done; `None` where the case may run."""
    warnings: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def repaired(self) -> bool:
        """Whether it has other bytes than it came with."""
        return self.case.sha256 != self.original.sha256


class CaseCheck:
    """Runs the per-case steps on one case.

    Args:
        case: As it was resolved.
        setting: Of the gate.
        known: Verdicts of earlier runs.
    """

    def __init__(self, case: Case, setting: GateSetting, known: Mapping[str, CachedVerdict]) -> None:
        self._setting = setting
        self._known = known
        self._rounds: Counter[str] = Counter()
        self._result = CheckedCase(original=case, case=case)

    async def run(self) -> CheckedCase:
        """Check it, repair it where that is asked for, and check all of it again, until nothing changes any more."""
        result = self._result
        setting = self._setting
        if recalls(setting.steps, regate=setting.regate):
            result.case = await recall(
                result.case, run_dir=setting.run_dir, kept=setting.snapshots, snapshots=setting.snapshots
            )
        while await self._changed():
            pass
        if result.repaired and result.stopped_by is None:
            await self._accept_repair()
        return result

    async def _changed(self) -> bool:
        """Run the steps in order; true as soon as a repair has changed the case."""
        result = self._result
        result.warnings.clear()
        for step in self._setting.steps:
            ended = await self._verdict(step)
            while ended.verdict == "rejected" and self._may_repair(step):
                before = result.case.sha256
                error = await self._repair(step, ended)
                if error is None and result.case.sha256 != before:
                    return True
                self._say(f"{step.label}: {error or 'the repair changed nothing'}")
            if ended.stops:
                result.stopped_by = ended
                return False
            if ended.reaction == "warn":
                result.warnings.append(f"case {result.case.label}: {ended.step}: {ended.message}")
        return False

    async def _verdict(self, step: ResolvedStep) -> StepResult:
        result, setting = self._result, self._setting
        case = result.case
        key = await anyio.to_thread.run_sync(setting.key, case, step)
        known = None if key is None or setting.regate else self._known.get(key)
        if known is not None:
            ended = concluded(step, StepOutcome(ok=known.ok, message=known.message))
            self._tell(step, ended, known.lines, " (known)")
            return ended
        ended = await self._run(step)
        lines = _lines(ended)
        self._tell(step, ended, lines, "")
        if key is not None and ended.outcome is not None:
            verdict = CachedVerdict(
                ok=ended.outcome.ok,
                message=ended.outcome.message,
                lines=lines,
                case=case.label,
                sha256=case.sha256 or "",
                step=step.label,
                run_id=setting.run_id,
                at=datetime.now(UTC).isoformat(timespec="seconds"),
            )
            await self._keep(key, verdict)
        return ended

    async def _keep(self, key: str, verdict: CachedVerdict) -> None:
        """Keep a verdict at once, also one on bytes that are repaired next: whoever starts from them asks no more."""
        cache = VerdictCache(self._setting.cache)
        try:
            await anyio.to_thread.run_sync(cache.add, {key: verdict})
        except OSError as error:
            # What was found is true all the same; another run finds it again.
            self._say(f"the verdict could not be kept in {cache.path}: {error.strerror}")

    async def _run(self, step: ResolvedStep) -> StepResult:
        setting, case = self._setting, self._result.case
        work_dir = setting.directory(case, step)
        work_dir.mkdir(parents=True, exist_ok=True)
        ctx = replace(
            setting.context(case, work_dir),
            subject={"name": case.name, "label": case.label, "sha256": case.sha256, "source": case.source},
            probe=_Probes(case, work_dir / "probes", setting),
            say=setting.say,
        )
        return await run_step(step, ctx, runner=setting.runner, secrets=setting.secrets, backoff=setting.backoff)

    def _may_repair(self, step: ResolvedStep) -> bool:
        return step.fix is not None and self._rounds[step.key] < step.spec.fix_attempts

    async def _repair(self, step: ResolvedStep, ended: StepResult) -> str | None:
        """Repair the case; a text where that did not work."""
        self._rounds[step.key] += 1
        attempt = self._rounds[step.key]
        assert step.fix is not None
        self._say(f"{step.label}: repair {attempt}/{step.spec.fix_attempts} with {step.fix.name}")
        try:
            self._result.case = await repair(
                self._result.case, step, ended.message, attempt=attempt, setting=self._setting
            )
        except RepairFailed as error:
            return f"the repair failed: {error}"
        return None

    async def _accept_repair(self) -> None:
        result = self._result
        old, new = (result.original.sha256 or "")[:12], (result.case.sha256 or "")[:12]
        self._say(f"repaired in place, {old} -> {new}")
        await remember(result.original, result.case, setting=self._setting)
        asked = [s for s in self._setting.steps if s.fix is not None and s.spec.fix_writeback and self._rounds[s.key]]
        if asked:
            try:
                await write_back(result.original, result.case)
            except RepairFailed as error:
                result.warnings.append(f"case {result.case.label}: fix_writeback: {error}")
                self._say(f"fix_writeback: {error}")

    def _tell(self, step: ResolvedStep, ended: StepResult, lines: tuple[str, ...], more: str) -> None:
        if ended.verdict == "failed":
            self._say(f"{step.label}: {ended.message} -> ERROR")
        else:
            for line in lines:
                self._say(f"{line}{more}")

    def _say(self, text: str) -> None:
        line = f"case {self._result.case.label}: {one_line(text)}"
        self._result.lines.append(line)
        self._setting.say(line)


class _Probes:
    """Probes of one step on one case, each in a directory of its own."""

    def __init__(self, case: Case, directory: Path, setting: GateSetting) -> None:
        self._case = case
        self._directory = directory
        self._setting = setting

    async def __call__(self, agent: str, *, index: int = 1) -> Rollout:
        """Run the case once."""
        number, directory = 1, self._directory / f"{agent}-{index}"
        while directory.exists():
            number += 1
            directory = self._directory / f"{agent}-{index}.{number}"
        directory.mkdir(parents=True)
        return await self._setting.run_probe(self._case, agent, index=index, directory=directory)


def one_line(text: str) -> str:
    """What a check says, which may be of several lines, as one: there is a line per case."""
    return short(text, _LONGEST)


def _lines(ended: StepResult) -> tuple[str, ...]:
    if ended.outcome is None:
        return ()
    given = ended.outcome.outputs.get("lines")
    if isinstance(given, list | tuple) and given and all(isinstance(line, str) for line in given):
        return tuple(given)
    said = f"{ended.step}: {ended.message}" if ended.message else ended.step
    return (f"{said} -> {'PASS' if ended.outcome.ok else 'FAIL'}",)
