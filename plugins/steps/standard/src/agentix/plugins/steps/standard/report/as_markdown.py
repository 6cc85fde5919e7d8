"""A report in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentix.plugins.steps.standard.markdown import escaped, table
from agentix.plugins.steps.standard.report.facts import MOST, Facts, Listed
from agentix.plugins.steps.standard.report.wording import (
    PASS_K_HEADER,
    SPREAD_HEADER,
    bounds_note,
    cells,
    header,
    headline,
    pass_k,
    spread,
)


def as_markdown(facts: Facts) -> str:
    """The report."""
    return "\n".join(_lines(facts)) + "\n"


def _lines(facts: Facts) -> Iterator[str]:
    name = f"{facts.experiment} · {facts.run_id}" if facts.experiment else facts.run_id
    yield f"# {escaped(name)}"
    yield ""
    if facts.incomplete is not None:
        yield f"**This run did not complete.** {escaped(facts.incomplete)}"
        yield ""
    yield escaped(headline(facts.numbers))
    yield ""
    if facts.numbers.rows:
        rows = [cells(row, facts.pass_at) for row in facts.numbers.rows.values()]
        yield from table(header(facts.pass_at), rows)
        note = bounds_note(facts.numbers)
        if note:
            yield from (note, "")
    for warning in facts.warnings:
        yield from (f"- {escaped(warning)}", "")
    yield from _section("Repeated trials", PASS_K_HEADER, pass_k(facts.numbers))
    repeated = spread(facts.numbers)
    yield from _section("Spread", SPREAD_HEADER, repeated[:MOST], hidden=len(repeated[MOST:]))
    yield from _listed("Not measured", ["trial", "code", "message"], facts.unmeasured)
    yield from _listed("Steps that failed", ["trial", "step", "message"], facts.step_failures)
    yield from _listed("Notes of steps", ["trial", "step", "note"], facts.step_notes)
    yield from _section("Cases left out", ["case", "reason"], facts.rejected)
    if facts.gate:
        yield from ("## Gate", "")
        yield from (f"- {escaped(line)}" for line in facts.gate)
        yield ""
    shown = [(label, sha[:12], pin) for label, sha, pin in facts.cases[:MOST]]
    yield from _section("Cases", ["case", "sha256", "from"], shown, hidden=len(facts.cases[MOST:]))
    yield from _section("Setup", ["what", "value"], facts.setup)


def _listed(title: str, names: list[str], found: Listed) -> Iterator[str]:
    yield from _section(title, names, found.shown, hidden=found.hidden)


def _section(title: str, names: Sequence[str], rows: Sequence[Sequence[str]], *, hidden: int = 0) -> Iterator[str]:
    if rows:
        yield from (f"## {title}", "")
        yield from table(names, rows)
        if hidden:
            yield from (f"… and {hidden} more", "")
