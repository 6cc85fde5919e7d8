"""How numbers and names are written in a report, and the table that every format shows."""

from __future__ import annotations

from agentix.api import AgentNumbers, RunNumbers
from agentix.plugins.steps.standard.counted import counted


def number(value: float | None) -> str:
    """A reward or a mean."""
    return "-" if value is None else f"{value:.3f}"


def percent(value: float | None) -> str:
    """A share."""
    return "-" if value is None else f"{value:.0%}"


def duration(value: float | None) -> str:
    """Seconds for people."""
    if value is None:
        return "-"
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s" if minutes else f"{value:.1f}s"


def header(pass_at: float | None) -> list[str]:
    """Names of the columns of the table."""
    return [
        "agent",
        "model",
        "measured",
        "mean",
        "95 %",
        "median",
        "p25",
        "p75",
        "coverage",
        "not measured",
        *([] if pass_at is None else [f"pass@{pass_at:.2f}"]),
        "tokens",
        "cost",
        "time",
    ]


def cells(row: AgentNumbers, pass_at: float | None) -> list[str]:
    """One row of it."""
    summary = row.summary
    planned = summary.n + summary.unrun
    bound = f" ({number(summary.mean_reward_infra_zero)})" if summary.infra_failures else ""
    passed = [] if pass_at is None else [share(row.pass_at(pass_at), summary.denominator)]
    return [
        row.agent,
        row.llm_spec or "-",
        f"{summary.measured}/{planned}",
        number(summary.mean_reward) + bound,
        "-" if row.interval is None else f"{number(row.interval.low)} – {number(row.interval.high)}",
        number(row.quantile(0.5)),
        number(row.quantile(0.25)),
        number(row.quantile(0.75)),
        percent(summary.coverage),
        ", ".join(f"{code}={n}" for code, n in sorted(summary.by_code.items(), key=str)) or "-",
        *passed,
        known(summary.tokens.sum, summary.tokens.unknown, "{:,.0f}"),
        known(summary.cost_usd.sum, summary.cost_usd.unknown, "${:,.2f}"),
        duration(summary.seconds.sum),
    ]


def share(count: int, of: int) -> str:
    """A count with what it is a share of."""
    return f"{count}/{of} = {count / of:.0%}" if of else "0/0"


def known(value: float | None, unknown: int, form: str) -> str:
    """A sum of which some may be unknown."""
    return "-" if value is None else form.format(value) + (f" + {unknown} unknown" if unknown else "")


def pass_k(numbers: RunNumbers) -> list[list[str]]:
    """Rows of agent, model, k, pass@k, pass^k and cases; empty where no case ran repeatedly."""
    return [
        [
            row.agent,
            row.llm_spec or "-",
            str(p.k),
            number(p.pass_at_k),
            number(p.pass_hat_k),
            f"{p.cases}/{len(row.cases)}",
        ]
        for row in numbers.rows.values()
        for p in row.pass_k
    ]


PASS_K_HEADER = ["agent", "model", "k", "pass@k", "pass^k", "cases"]
SPREAD_HEADER = ["case", "agent", "model", "trials", "mean", "best", "worst"]


def spread(numbers: RunNumbers) -> list[list[str]]:
    """Rows for every case that ran repeatedly, the widest spread first."""
    found = [
        (max(t.rewards) - min(t.rewards), case, row, t)
        for row in numbers.rows.values()
        for case, t in row.cases.items()
        if len(t.rewards) > 1
    ]
    found.sort(key=lambda item: (-item[0], item[1], item[2].name))
    return [
        [
            case,
            row.agent,
            row.llm_spec or "-",
            str(len(t.rewards)),
            number(t.mean),
            number(max(t.rewards)),
            number(min(t.rewards)),
        ]
        for _, case, row, t in found
    ]


def bounds_note(numbers: RunNumbers) -> str | None:
    """What the number in brackets is, and that there is little behind the means, where either is so."""
    total = numbers.total
    said = []
    if infra := total.infra_failures:
        said.append(
            f"{infra} of the trials failed for a reason that is not the agent's. They are left out of the means; in "
            "brackets, the mean with each of them counted as 0."
        )
    if not total.denominator:
        said.append("Nothing was measured.")
    elif total.low_coverage:
        said.append(
            f"LOW COVERAGE: only {total.denominator} of {total.n + total.unrun} trials count, which says little about "
            "the others."
        )
    return " ".join(said) or None


def headline(numbers: RunNumbers) -> str:
    """The run in one sentence."""
    total = numbers.total
    return (
        f"{counted(total.n + total.unrun, 'trial')}: {total.resolved} resolved, {total.unresolved} unresolved, "
        f"{total.agent_failures} agent failures, {total.infra_failures} infrastructure failures, {total.unrun} unrun; "
        f"mean reward {number(total.mean_reward)} over {total.denominator}"
    )
