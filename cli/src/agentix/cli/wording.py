"""How numbers, states and results are worded, the same in every place."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from agentix.cli.board import Board
from agentix.errors.one_line import on_one_line
from agentix.records import Record
from agentix.stats import Spread, Summary

_REASON = 240
_NAMED = 10

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def seconds(value: float | None) -> str:
    """A duration for people: `0.42 s`, `12.3 s`, `4m12s`, `1h02m`."""
    if value is None:
        return "unknown"
    if value < 60:
        return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours}h{minutes_left:02d}m" if hours else f"{minutes}m{rest:02d}s"


def size(count: int) -> str:
    """A number of bytes for people: `12 kB`."""
    if count < 1000:
        return f"{count} {'byte' if count == 1 else 'bytes'}"
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.3g} {_UNITS[unit]}"


def number(value: float | None) -> str:
    """A reward or a mean."""
    return "none" if value is None else f"{value:.3f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.1f}"


def plural(count: int, word: str) -> str:
    """`1 trial`, `2 trials`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def reason(record: Record, *, longest: int = _REASON) -> str:
    """Why a trial is not resolved, on one line."""
    if record.failure_code is not None:
        detail = f" ({record.failure_detail})" if record.failure_detail else ""
        text = f"{record.failure_code}{detail}: {record.failure_message or 'no message'}"
    elif record.ended not in (None, "completed"):
        text = f"reward {number(record.reward)}, ended by {record.ended}"
        text += "".join(f": {note.removeprefix('agent: ')}" for note in record.notes if note.startswith("agent: "))
    else:
        text = f"reward {number(record.reward)}"
    return short(text, longest)


def short(text: str, longest: int) -> str:
    """A text on one line of at most so many characters; `…` where the end is left out."""
    joined = on_one_line(text)
    return joined if len(joined) <= longest else joined[: longest - 1] + "…"


def listed(names: Sequence[str], *, most: int = _NAMED) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def notes_of(record: Record, *, told: Container[str] = (), longest: int) -> str:
    """What there is to know of a trial, on one line: the first note, and how many more there are.

    Args:
        record: The trial's.
        told: What is told elsewhere.
        longest: At most so many characters.
    """
    notes = [note for note in record.notes if note not in told]
    if not notes:
        return ""
    more = f" (+{len(notes) - 1} more)" if len(notes) > 1 else ""
    return short(notes[0], longest - len(more)) + more


def result(record: Record) -> str:
    """The result of a trial in few words."""
    if record.failure_code is not None:
        return str(record.failure_code)
    return "resolved" if record.resolved else "unresolved"


def heartbeat(board: Board) -> str:
    """The state of a run on one line."""
    parts = [f"{board.done}/{board.to_run} done"]
    if board.running:
        phases = ", ".join(f"{phase}×{count}" for phase, count in sorted(board.phases().items()))
        parts.append(f"{len(board.running)} running ({phases})")
    parts += so_far(board.summary)
    for trial in board.slowest():
        took = board.started + board.elapsed - trial.started
        parts.append(f"slowest: {trial.trial_id} in {trial.phase} for {seconds(took)}")
    return " · ".join(parts)


def so_far(summary: Summary) -> Iterator[str]:
    """What is known of the results of a run that goes on: their mean, what has none and why, and the cost."""
    if summary.denominator:
        yield f"mean {number(summary.mean_reward)}"
    yield from codes(summary)
    if summary.cost_usd.known:
        yield f"${summary.cost_usd.total:.2f}"


def codes(summary: Summary) -> list[str]:
    """The codes of trials without a reward, each with how often it is there."""
    return [f"{code} {count}" for code, count in sorted(summary.by_code.items(), key=str)]


def totals(summary: Summary) -> list[str]:
    """The numbers of a run, a few lines."""
    infra = summary.infra_failures
    lines = [
        f"{plural(summary.n + summary.unrun, 'trial')}: {summary.resolved} resolved, {summary.unresolved} unresolved, "
        f"{plural(summary.agent_failures, 'agent failure')}, {plural(infra, 'infrastructure failure')}, "
        f"{summary.unrun} unrun"
    ]
    if summary.denominator:
        other = f" ({number(summary.mean_reward_infra_zero)} with {infra} infrastructure as 0)" if infra else ""
        rate = f" ({_percent(summary.resolved_rate_infra_zero)})" if infra else ""
        lines.append(
            f"mean reward {number(summary.mean_reward)} over {summary.denominator}{other} · "
            f"resolved {summary.resolved}/{summary.denominator} = {_percent(summary.resolved_rate)}{rate} · "
            f"coverage {summary.measured}/{summary.n + summary.unrun} = {_percent(summary.coverage)}"
        )
        if summary.low_coverage:
            lines.append(
                f"LOW COVERAGE: only {summary.denominator} of {summary.n + summary.unrun} trials count, "
                "which says little about the others"
            )
    else:
        lines.append("mean reward none: nothing was measured")
    if summary.by_code:
        lines.append(f"without a reward: {', '.join(codes(summary))}")
    lines += _repeated(summary)
    tokens = _known(summary.tokens.sum, summary.tokens.unknown, "{:,.0f}")
    cost = _known(summary.cost_usd.sum, summary.cost_usd.unknown, "${:.4f}")
    lines.append(f"trials took {seconds(summary.seconds.sum)} in all · tokens {tokens} · cost {cost}")
    return lines


def _repeated(summary: Summary) -> Iterator[str]:
    """How far the trials of one instance lie apart, for each agent with its model."""
    rows: dict[tuple[str, str | None], list[Spread]] = {}
    for (_, agent, llm_spec), spread in summary.instances.items():
        rows.setdefault((agent, llm_spec), []).extend([spread] if spread.n > 1 else [])
    for (agent, llm_spec), spreads in rows.items():
        if spreads:
            best = sum(spread.best for spread in spreads) / len(spreads)
            worst = sum(spread.worst for spread in spreads) / len(spreads)
            who = "" if len(rows) == 1 else f"{agent}: " if llm_spec is None else f"{agent} with {llm_spec}: "
            yield (
                f"{who}{plural(len(spreads), 'instance')} ran repeatedly: "
                f"mean of the best {number(best)}, of the worst {number(worst)}"
            )


def _known(value: float | None, unknown: int, form: str) -> str:
    if value is None:
        return "unknown"
    return form.format(value) + (f" (and {unknown} unknown)" if unknown else "")


def _percent(value: float | None) -> str:
    return "none" if value is None else f"{value * 100:.1f} %"
