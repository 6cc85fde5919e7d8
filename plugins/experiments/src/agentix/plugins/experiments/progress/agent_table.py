"""The numbers of each agent with its model, a row each."""

from __future__ import annotations

from collections.abc import Iterator

from agentix.api import AgentNumbers, RunNumbers
from agentix.cli.api import table


def agent_table(numbers: RunNumbers, *, pass_at: float | None = None) -> Iterator[str]:
    """The lines of the table, and what its brackets mean; none where no trial is done.

    Args:
        numbers: Of the run.
        pass_at: The reward from which a trial counts as passed, for one more column.
    """
    total = numbers.total
    if not total.n:
        return
    header = ["agent", "model", "done", "mean", "median", "p25", "p75", "not measured"]
    header += [] if pass_at is None else [f"pass@{pass_at:.2f}"]
    yield from table(header, [_row(row, pass_at) for row in numbers.rows.values()], right=frozenset({2, 3, 4, 5, 6}))
    if total.infra_failures:
        yield "in brackets: the mean with every trial that failed for no fault of the agent counted as 0"


def _row(row: AgentNumbers, pass_at: float | None) -> list[str]:
    summary = row.summary
    codes = " ".join(f"{code}={count}" for code, count in sorted(summary.by_code.items(), key=str)) or "-"
    quantiles = [_number(row.quantile(q)) for q in (0.5, 0.25, 0.75)]
    mean = _number(summary.mean_reward)
    mean += f" ({_number(summary.mean_reward_infra_zero)})" if summary.infra_failures else ""
    cells = [row.agent, row.llm_spec or "-", str(summary.n), mean, *quantiles, codes]
    if pass_at is not None:
        passed, of = row.pass_at(pass_at), summary.denominator
        cells.append(f"{passed}/{of} = {100 * passed / of:.0f}%" if of else "0/0")
    return cells


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
