"""What verdicts of earlier runs say ahead of a gate: which cases it will not let pass, and which it has to check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from agentix.api import Case, StepOutcome
from agentix.cli.api import plural
from agentix.plugins.experiments.engine.checking import gate_setup
from agentix.plugins.experiments.engine.parts import Parts
from agentix.plugins.experiments.gate import CachedVerdict, verdict_key
from agentix.plugins.experiments.steps import concluded


@dataclass(frozen=True, kw_only=True)
class Foreknown:
    """A case before its gate."""

    case: Case
    check: bool = False
    """Whether there is something to check."""
    rejected: str | None = None
    """The step that rejected it, and why."""
    stops: bool = False
    """Whether that stops the run."""
    repair: str | None = None
    """The command that repairs what was rejected, so that nothing is decided yet."""

    @property
    def left_out(self) -> bool:
        """Whether it is known already that its trials do not run."""
        return self.rejected is not None and self.repair is None


@dataclass(frozen=True)
class GateAhead:
    """All cases before their gate."""

    cases: tuple[Foreknown, ...]
    steps: tuple[str, ...]

    @property
    def lines(self) -> Iterator[str]:
        """What will happen."""
        checks = ", ".join(self.steps)
        todo, known = sum(one.check for one in self.cases), sum(not one.check for one in self.cases)
        yield f"gate: {plural(todo, 'case')} checked first ({checks}), {known} known; what it rejects does not run"
        for one in self.cases:
            if one.rejected is not None:
                then = "left out"
                if one.repair is not None:
                    then = f"repaired with {one.repair} and checked again"
                elif one.stops:
                    then = "the run stops before any trial"
                yield f"case {one.case.label}: {one.rejected} (known): {then}"

    def why_not(self, case: Case) -> str | None:
        """Why the trials of a case do not run; `None` where that is not known."""
        mine = self._by_label.get(case.label)
        if mine is not None and mine.left_out:
            return f"not run: its case is known to be rejected by {(mine.rejected or '').partition(':')[0]}"
        if self._stopping is None:
            return None
        return f"not run: case {self._stopping.case.label} is known to be rejected, which stops the run"

    @cached_property
    def _by_label(self) -> Mapping[str, Foreknown]:
        return {one.case.label: one for one in self.cases}

    @cached_property
    def _stopping(self) -> Foreknown | None:
        return next((one for one in self.cases if one.left_out and one.stops), None)


def look_ahead(parts: Parts, cases: Sequence[Case], known: Mapping[str, CachedVerdict]) -> GateAhead:
    """Look up what is known of cases.

    Args:
        parts: What the run is made of.
        cases: Those that the gate is about.
        known: The verdicts that there are.
    """
    setup = gate_setup(parts)
    steps = tuple(step.label for step in parts.pipeline.per_case)
    return GateAhead(tuple(_look_up(parts, case, setup, known) for case in cases), steps)


def _look_up(parts: Parts, case: Case, setup: Mapping[str, object], known: Mapping[str, CachedVerdict]) -> Foreknown:
    for step in parts.pipeline.per_case:
        key = verdict_key(case, step, setup)
        verdict = None if key is None else known.get(key)
        if verdict is None:
            return Foreknown(case=case, check=True)
        ended = concluded(step, StepOutcome(ok=verdict.ok, message=verdict.message))
        if ended.verdict != "rejected":
            continue
        said = f"{step.label}: {ended.message}"
        if step.fix is not None and step.spec.fix_attempts:
            return Foreknown(case=case, check=True, rejected=said, repair=step.fix.name)
        if ended.stops:
            return Foreknown(case=case, rejected=said, stops=ended.reaction == "fail")
    return Foreknown(case=case)
