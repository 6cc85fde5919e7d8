"""A report as one page of HTML that needs nothing else: no script, no font, no picture from anywhere."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from agentix.api import AgentNumbers
from agentix.plugins.steps.standard.markdown import clean
from agentix.plugins.steps.standard.report.facts import MOST, Facts
from agentix.plugins.steps.standard.report.wording import (
    PASS_K_HEADER,
    SPREAD_HEADER,
    bounds_note,
    cells,
    header,
    headline,
    number,
    pass_k,
    percent,
    spread,
)


def as_html(facts: Facts) -> str:
    """The page."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_shown
    )
    source = files("agentix.plugins.steps.standard.report").joinpath("page.html.jinja").read_text("utf-8")
    repeated = spread(facts.numbers)
    total = facts.numbers.total
    tiles = [
        ("mean reward", number(total.mean_reward)),
        ("resolved", f"{total.resolved}/{total.denominator}"),
        ("coverage", percent(total.coverage)),
        ("agent failures", str(total.agent_failures)),
        ("infrastructure failures", str(total.infra_failures)),
        ("unrun", str(total.unrun)),
    ]
    tables = [
        ("Repeated trials", PASS_K_HEADER, pass_k(facts.numbers), 0),
        ("Spread", SPREAD_HEADER, repeated[:MOST], len(repeated[MOST:])),
        ("Not measured", ["trial", "code", "message"], facts.unmeasured.shown, facts.unmeasured.hidden),
        ("Steps that failed", ["trial", "step", "message"], facts.step_failures.shown, facts.step_failures.hidden),
        ("Notes of steps", ["trial", "step", "note"], facts.step_notes.shown, facts.step_notes.hidden),
        ("Cases left out", ["case", "reason"], facts.rejected, 0),
        ("Gate", ["verdict"], [(line,) for line in facts.gate], 0),
        ("Cases", ["case", "sha256", "from"], facts.cases[:MOST], len(facts.cases[MOST:])),
        ("Setup", ["what", "value"], facts.setup, 0),
    ]
    return environment.from_string(source).render(
        facts=facts,
        headline=headline(facts.numbers),
        tiles=tiles,
        header=header(facts.pass_at),
        rows=[(cells(row, facts.pass_at), _bar(row)) for row in facts.numbers.rows.values()],
        note=bounds_note(facts.numbers),
        tables=[table for table in tables if table[2]],
    )


def _bar(row: AgentNumbers) -> dict[str, str] | None:
    """Mean and interval on a scale from 0 to 1, in percent; nothing for rewards that are not on it."""
    mean, interval = row.summary.mean_reward, row.interval
    if mean is None or not row.rewards or row.rewards[0] < 0 or row.rewards[-1] > 1:
        return None
    low, high = (mean, mean) if interval is None else (interval.low, interval.high)
    return {"mean": f"{mean * 100:.2f}", "low": f"{low * 100:.2f}", "width": f"{max(high - low, 0) * 100:.2f}"}


def _shown(value: Any) -> Any:
    return clean(value) if type(value) is str else value
