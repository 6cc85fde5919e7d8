"""What belongs to a run: what its file plans now, what it had planned that was not asked for, what it has besides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from agentix.api import Case, load_run
from agentix.cli.api import ExperimentManifest, plural
from agentix.plugins.experiments.engine.live import LiveRun
from agentix.plugins.experiments.plan import Plan

Row = tuple[str, str | None]


@dataclass(frozen=True, kw_only=True)
class Belonging:
    """The trials of a run, counted."""

    cases: Counter[str] = field(default_factory=Counter)
    """By label."""
    rows: Counter[Row] = field(default_factory=Counter)
    """By agent and model."""
    kept: int = 0
    """Trials with a result that the file does not have any more."""
    dropped: int = 0
    """Trials without a result that were planned and that the file does not have any more."""

    @property
    def total(self) -> int:
        """How many there are."""
        return self.cases.total()

    @property
    def lines(self) -> Iterator[str]:
        """What the user should know of a file that has become smaller."""
        if self.kept:
            many = "that are no longer in the file are kept and count"
            said = "that is no longer in the file is kept and counts" if self.kept == 1 else many
            yield f"{plural(self.kept, 'trial')} with a result {said}"
        if self.dropped:
            said = "is no longer in the file and does" if self.dropped == 1 else "are no longer in the file and do"
            yield f"{plural(self.dropped, 'planned trial')} without a result {said} not count"

    def applied(self, manifest: ExperimentManifest) -> ExperimentManifest:
        """The manifest with these counts, without rows and cases of which there is nothing."""
        told = {*manifest.rejected, *manifest.unknown}
        cases = tuple(
            case.model_copy(update={"planned": self.cases[case.label]})
            for case in manifest.cases
            if self.cases[case.label] or case.label in told
        )
        rows = tuple(
            row.model_copy(update={"planned": self.rows[row.agent, row.llm_spec]})
            for row in manifest.matrix
            if self.rows[row.agent, row.llm_spec]
        )
        return manifest.model_copy(update={"planned": self.total, "cases": cases, "matrix": rows})


def belonging(live: LiveRun, plan: Plan, *, in_file: Plan, asked: Collection[Case]) -> Belonging:
    """Count what belongs to a run.

    Args:
        live: The run.
        plan: What is planned now.
        in_file: What the file has, whatever was asked for of it.
        asked: The cases that were asked for, those that did not pass the gate among them.
    """
    writer, earlier = live.writer, live.writer.earlier
    labels = {case.label for case in asked}
    before = set() if earlier is None else {c.label for c in earlier.cases if c.label not in earlier.rejected}
    # What --case and --limit have left out is as planned as it was.
    others = [t for t in in_file.trials if t.case.label not in labels and t.case.label in before]
    trials = {trial.trial_id: trial for trial in (*plan.trials, *others)}
    cases, rows = Counter[str](), Counter[Row]()
    for trial in trials.values():
        cases[trial.case.label] += 1
        rows[trial.agent.id or trial.agent.name, None if trial.llm is None else trial.llm.name] += 1
    has = {trial.trial_id for trial in in_file.trials}
    kept = 0
    if writer.state.done.keys() - trials.keys():
        for record in load_run(live.root):
            if record.trial_id not in trials:
                cases[record.case] += 1
                rows[record.agent, record.llm_spec] += 1
                kept += record.trial_id not in has
    dropped = 0 if earlier is None else max(0, earlier.planned - cases.total())
    return Belonging(cases=cases, rows=rows, kept=kept, dropped=dropped)
