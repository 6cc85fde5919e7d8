"""Which rows of two runs are compared, and how the runs differ in what they were asked to do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentix.errors import UsageError
from agentix.records import AnyManifest, ExperimentManifest, Manifest, Run
from agentix.stats.comparing import Comparison, compare
from agentix.stats.numbers import AgentNumbers, RunNumbers


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """One run against another."""

    pairs: tuple[Comparison, ...]
    unpaired_a: tuple[str, ...] = ()
    """Rows of a that b has none for."""
    unpaired_b: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    """What is different in the setup, from a to b."""
    unmeasured: Mapping[str, int] | None = None
    """Trials of the rows compared that failed for no fault of the agent and are left out, by run: `a`, `b`."""

    def to_data(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "pairs": [pair.to_data() for pair in self.pairs],
            "unpaired_a": list(self.unpaired_a),
            "unpaired_b": list(self.unpaired_b),
            "changes": list(self.changes),
            "infra_failures": dict(self.unmeasured or {}),
        }


def compare_runs(a: Run, b: Run, *, row_a: str | None = None, row_b: str | None = None) -> RunComparison:
    """Compare two runs, by case.

    Rows of the same agent and model are compared with each other. Where each run has one row, these are compared
    whatever they are called: that is how one agent is compared with another.

    Args:
        a: What is compared against.
        b: What is compared; it may be the same run, with another row.
        row_a: The one row of a, as `AGENT` or `AGENT with MODEL`.
        row_b: The one row of b.

    Raises:
        UsageError: There is no such row, or nothing to compare.
        AgentixError: SciPy is not installed.
    """
    numbers_a, numbers_b = RunNumbers.of_run(a), RunNumbers.of_run(b)
    rows_a, rows_b = _named(a, numbers_a, row_a), _named(b, numbers_b, row_b)
    if len(rows_a) == 1 and len(rows_b) == 1:
        pairs = [(next(iter(rows_a.values())), next(iter(rows_b.values())))]
    elif row_a is not None or row_b is not None:
        pairs = [(x, y) for x in rows_a.values() for y in rows_b.values()]
    else:
        pairs = [(rows_a[name], rows_b[name]) for name in rows_a if name in rows_b]
    empty = [str(run.path) for run, rows in ((a, rows_a), (b, rows_b)) if not rows]
    if empty:
        raise UsageError(
            f"there is nothing to compare: {' and '.join(dict.fromkeys(empty))} has no trial that was measured",
            hint="`agentix status RUN --failures` says why.",
        )
    if not pairs:
        raise UsageError(
            f"{a.path} and {b.path} have no agent with the same model in common",
            hint=f"Say which with row_a and row_b (--row-a, --row-b): a has {_list(rows_a)}; b has {_list(rows_b)}.",
        )
    by_name = isinstance(a.manifest, ExperimentManifest) != isinstance(b.manifest, ExperimentManifest)
    used_a, used_b = {id(x) for x, _ in pairs}, {id(y) for _, y in pairs}
    return RunComparison(
        pairs=tuple(
            compare(_renamed(x, a) if by_name else x, _renamed(y, b) if by_name else y, names=_names(a, b, x, y))
            for x, y in pairs
        ),
        unpaired_a=tuple(name for name, row in rows_a.items() if id(row) not in used_a),
        unpaired_b=tuple(name for name, row in rows_b.items() if id(row) not in used_b),
        changes=tuple(setup_changes(a, b)),
        unmeasured={"a": _unmeasured(rows_a, used_a), "b": _unmeasured(rows_b, used_b)},
    )


def setup_changes(a: Run, b: Run) -> Iterator[str]:
    """What is different in what the runs were asked to do, a line each."""
    yield from _changes(a.manifest, b.manifest)
    for run, name in ((a, "A"), (b, "B")):
        for change in () if run.manifest is None else run.manifest.mixed:
            yield f"{name} is mixed: {change}"


def _changes(old: AnyManifest | None, new: AnyManifest | None) -> list[str]:
    if old is None or new is None:
        known = ["(none)" if manifest is None else "known" for manifest in (old, new)]
        return [] if known[0] == known[1] else [f"setup: {known[0]} -> {known[1]}"]
    if isinstance(old, Manifest) and isinstance(new, Manifest):
        return [*old.changes(new), *old.version_changes(new)]
    if isinstance(old, ExperimentManifest) and isinstance(new, ExperimentManifest):
        return [*old.changes(new), *old.version_changes(new)]
    before, after = ("(none)" if m.provider is None else m.provider.ref for m in (old, new))
    return [
        f"kind: {_kind(old)} -> {_kind(new)}",
        *([] if before == after else [f"provider: {before} -> {after}"]),
    ]


def _kind(manifest: AnyManifest) -> str:
    return "experiment" if isinstance(manifest, ExperimentManifest) else "rollout"


def _named(run: Run, numbers: RunNumbers, wanted: str | None) -> dict[str, AgentNumbers]:
    rows = {row.name: row for row in numbers.rows.values() if row.cases}
    if wanted is None:
        return rows
    if wanted in rows:
        return {wanted: rows[wanted]}
    of_agent = {name: row for name, row in rows.items() if row.agent == wanted}
    if len(of_agent) != 1:
        problem = "has several rows" if of_agent else "has no measured row"
        raise UsageError(f"{run.path} {problem} {wanted!r}", hint=f"It has {_list(rows)}.")
    return of_agent


def _unmeasured(rows: Mapping[str, AgentNumbers], used: Collection[int]) -> int:
    return sum(row.summary.infra_failures for row in rows.values() if id(row) in used)


def _list(rows: Mapping[str, AgentNumbers]) -> str:
    return ", ".join(repr(name) for name in rows) or "no trial that was measured"


def _names(a: Run, b: Run, x: AgentNumbers, y: AgentNumbers) -> tuple[str, str]:
    return f"{a.path.name}: {x.name}", f"{b.path.name}: {y.name}"


def _renamed(row: AgentNumbers, run: Run) -> AgentNumbers:
    """The row with its cases called as a run of `agentix-run` calls them."""
    manifest = run.manifest
    if not isinstance(manifest, ExperimentManifest):
        return row
    names = {case.label: case.name for case in manifest.cases}
    return AgentNumbers(
        agent=row.agent,
        llm_spec=row.llm_spec,
        summary=row.summary,
        cases={names.get(label, label): trials for label, trials in row.cases.items()},
    )
