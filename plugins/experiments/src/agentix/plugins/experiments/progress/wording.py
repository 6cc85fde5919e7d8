"""Lines about a run: the heartbeat, a result, a case."""

from __future__ import annotations

from collections.abc import Iterator

from agentix.api import Record
from agentix.cli.api import reason, seconds, so_far
from agentix.plugins.experiments.progress.board import Board

CASES_SHOWN = 8
_NOTE = 100


def heartbeat(board: Board) -> Iterator[str]:
    """The state of a run: how far, what is where, each case, and what takes longest."""
    if board.state in ("resolving", "gate", "closing") and not board.in_flight:
        yield f"{board.state}: {board.doing}" if board.doing else board.state
        return
    yield counts(board)
    cases = [f"{short_case(name)} {case.done}/{case.of}" for name, case in board.cases.items() if case.of]
    if len(cases) > 1:
        more = f" · and {len(cases) - CASES_SHOWN} more cases" if len(cases) > CASES_SHOWN else ""
        yield " · ".join(cases[:CASES_SHOWN]) + more
    for trial in board.slowest():
        took = board.started + board.elapsed - trial.since
        yield f"slowest: {trial.trial_id} in {where(trial.step, trial.phase)} for {seconds(took)}"


def counts(board: Board) -> str:
    """`6/34 done · 4 running (harbor×2, archive×1, ship×1) · 1 dropped`, and what is known of the rewards."""
    parts = [f"{board.done}/{board.planned} done"]
    if board.in_flight:
        steps = ", ".join(f"{step}×{count}" for step, count in board.steps().items())
        parts.append(f"{len(board.in_flight)} running ({steps})")
    if board.dropped:
        parts.append(f"{board.dropped} dropped")
    return " · ".join([*parts, *so_far(board.summary)])


def result_line(record: Record, board: Board) -> str:
    """`[7/34] greet-oracle-1: reward 0.420 (18.3 s)`."""
    if record.failure_code is not None:
        said = reason(record)
    else:
        said = f"reward {record.reward:.3f}" if record.reward is not None else "no reward"
        if record.ended not in (None, "completed"):
            said += f", ended by {record.ended}"
    more = f", attempt {record.attempts}" if record.attempts > 1 else ""
    more += ", dropped" if record.dropped else ""
    failed = "".join(f"; step {failure.step} failed" for failure in record.step_failures)
    failed += "".join(f"; step {step}: {_first(what)}" for step, what in record.step_notes)
    return f"[{board.done}/{board.planned}] {record.trial_id}: {said} ({seconds(record.seconds)}{more}){failed}"


def _first(text: str) -> str:
    line = text.partition("\n")[0]
    return f"{line[:_NOTE]}…" if len(line) > _NOTE else line


def where(step: str, phase: str) -> str:
    """The step, and what it is doing where that says more."""
    return f"{step} ({phase})" if phase and phase != "executor" else step


def short_case(label: str) -> str:
    """The last part of a case's label."""
    return label.rstrip("/").rpartition("/")[2] or label
