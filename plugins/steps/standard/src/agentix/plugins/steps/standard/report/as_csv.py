"""A report as a table for spreadsheets: a row for every agent with every model, always the same columns."""

from __future__ import annotations

import csv
import io
from typing import Any

from agentix.api import AgentNumbers
from agentix.plugins.steps.standard.markdown import clean
from agentix.plugins.steps.standard.report.facts import Facts

_FORMULA = ("=", "+", "-", "@")


def as_csv(facts: Facts) -> str:
    """The table with its header, lines ending as RFC 4180 says."""
    out = io.StringIO()
    rows = [_row(facts, row) for row in facts.numbers.rows.values()]
    writer = csv.DictWriter(out, COLUMNS)
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return out.getvalue()


COLUMNS: tuple[str, ...] = (
    "experiment",
    "run_id",
    "created_at",
    "agent",
    "llm_spec",
    "planned",
    "measured",
    "resolved",
    "agent_failures",
    "infra_failures",
    "unrun",
    "denominator",
    "mean_reward",
    "mean_reward_infra_zero",
    "interval_low",
    "interval_high",
    "interval_method",
    "median",
    "p25",
    "p75",
    "coverage",
    "k",
    "pass_at_k",
    "pass_hat_k",
    "pass_reward",
    "passed",
    "tokens",
    "cost_usd",
    "seconds",
)


def _row(facts: Facts, row: AgentNumbers) -> dict[str, Any]:
    summary, interval = row.summary, row.interval
    most = row.pass_k[-1] if row.pass_k else None
    return {
        "experiment": facts.experiment,
        "run_id": facts.run_id,
        "created_at": facts.created_at,
        "agent": row.agent,
        "llm_spec": row.llm_spec,
        "planned": summary.n + summary.unrun,
        "measured": summary.measured,
        "resolved": summary.resolved,
        "agent_failures": summary.agent_failures,
        "infra_failures": summary.infra_failures,
        "unrun": summary.unrun,
        "denominator": summary.denominator,
        "mean_reward": summary.mean_reward,
        "mean_reward_infra_zero": summary.mean_reward_infra_zero,
        "interval_low": None if interval is None else interval.low,
        "interval_high": None if interval is None else interval.high,
        "interval_method": None if interval is None else interval.method,
        "median": row.quantile(0.5),
        "p25": row.quantile(0.25),
        "p75": row.quantile(0.75),
        "coverage": summary.coverage,
        "k": None if most is None else most.k,
        "pass_at_k": None if most is None else most.pass_at_k,
        "pass_hat_k": None if most is None else most.pass_hat_k,
        "pass_reward": facts.pass_at,
        "passed": None if facts.pass_at is None else row.pass_at(facts.pass_at),
        "tokens": summary.tokens.sum,
        "cost_usd": summary.cost_usd.sum,
        "seconds": summary.seconds.sum,
    }


def _cell(value: Any) -> Any:
    """Text that a spreadsheet would run as a formula begins with an apostrophe, which makes it text there."""
    if not isinstance(value, str):
        return value
    text = clean(value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
