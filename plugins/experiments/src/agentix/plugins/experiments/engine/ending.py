"""How a run ended, what is said about it, and the exit code that goes with it."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentix.api import load_run
from agentix.cli.api import ExperimentManifest, Output, Summary, exit_codes, missing, number, plural, totals
from agentix.plugins.experiments.engine.flow import Outcome
from agentix.plugins.experiments.engine.request import RunRequest
from agentix.plugins.experiments.progress import Board

_LISTED = 10


@dataclass(frozen=True, kw_only=True)
class Ending:
    """Everything that the end of a run is judged by."""

    path: Path
    summary: Summary
    manifest: ExperimentManifest | None
    unrun: tuple[str, ...] = ()
    signal: int | None = None
    stopped: str | None = None
    unreleased: tuple[str, ...] = ()
    failed_steps: tuple[str, ...] = ()
    fail_under: float | None = None
    allow_failures: bool = False
    elapsed_s: float = 0.0
    resume_with: str = ""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Cases that did not pass the gate, where the run went on without them."""
        return () if self.manifest is None or self.stopped else tuple(self.manifest.rejected)

    @property
    def below(self) -> bool:
        """Whether the mean is below what was asked for, or there is none."""
        mean = self.summary.mean_reward
        return self.fail_under is not None and (mean is None or mean < self.fail_under)

    @property
    def exit_code(self) -> int:
        """See `agentix.cli.exit_codes`."""
        if self.signal is not None:
            return exit_codes.of_signal(self.signal)
        failed = self.stopped or self.unrun or self.unreleased or self.failed_steps
        if failed or self.summary.step_failures or self.below:
            return exit_codes.FAILED
        if self.summary.infra_failures and not self.allow_failures:
            return exit_codes.UNMEASURED
        return exit_codes.OK


def judge(request: RunRequest, path: Path, outcome: Outcome, board: Board, *, elapsed_s: float) -> Ending:
    """Judge a run by what it has on the disk: the board counts a result only once its line is there."""
    manifest = None
    if (path / "manifest.json").exists():
        found = load_run(path).manifest
        manifest = found if isinstance(found, ExperimentManifest) else None
    summary = board.summary
    unrun = missing(outcome.planned, board.recorded)
    summary.planned = max(0 if manifest is None else manifest.planned, len(board.recorded) + len(unrun))
    ended = () if manifest is None else manifest.ended
    return Ending(
        path=path,
        summary=summary,
        manifest=manifest,
        unrun=unrun,
        signal=outcome.signal,
        stopped=outcome.stopped,
        unreleased=tuple(board.unreleased),
        failed_steps=tuple(f"{end.step}: {end.message}" for end in ended if not end.ok and not end.warned),
        fail_under=request.fail_under,
        allow_failures=request.allow_failures,
        elapsed_s=elapsed_s,
        resume_with=outcome.resume_with,
    )


def print_ending(ending: Ending, output: Output, *, as_json: bool) -> None:
    """Say how it ended: for people, or as one JSON object on stdout."""
    if as_json:
        _print_json(ending)
        return
    for line in totals(ending.summary):
        output.line(line)
    for line in _verdict(ending):
        output.line(line)
    output.line(f"results: {ending.path / 'results.jsonl'}")


def _verdict(ending: Ending) -> list[str]:
    lines = []
    if ending.signal is not None:
        lines.append(f"interrupted by {signal.Signals(ending.signal).name}")
    elif ending.stopped:
        lines.append(f"This run did not complete: {ending.stopped}")
    lines += [f"step failed: {step}" for step in ending.failed_steps if step != ending.stopped]
    if ending.summary.step_failures:
        failures = plural(ending.summary.step_failures, "step")
        lines.append(f"{failures} failed after a trial: agentix status {ending.path} --failures")
    if ending.left_out:
        cases = _shortened(ending.left_out)
        lines.append(f"{plural(len(ending.left_out), 'case')} left out by the gate: {cases}")
    if ending.unrun:
        lines.append(
            f"expected {ending.summary.n + ending.summary.unrun} results, have {ending.summary.n}; without a result: "
            f"{_shortened(ending.unrun)}"
        )
    if ending.unrun or ending.stopped:
        lines.append(f"  resume with: {ending.resume_with}")
    if ending.unreleased:
        lines.append(f"sandboxes that may still exist: {', '.join(ending.unreleased)}\n  remove them: agentix gc")
    if ending.below:
        lines.append(f"the mean reward is {number(ending.summary.mean_reward)}, below {ending.fail_under:g}")
    return lines


def _shortened(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _print_json(ending: Ending) -> None:
    data = {
        "run_id": ending.path.name,
        "path": str(ending.path),
        "results": str(ending.path / "results.jsonl"),
        "exit_code": ending.exit_code,
        "signal": None if ending.signal is None else signal.Signals(ending.signal).name,
        "stopped": ending.stopped,
        "unrun": list(ending.unrun),
        "unreleased": list(ending.unreleased),
        "failed_steps": list(ending.failed_steps),
        "left_out": list(ending.left_out),
        "elapsed_s": round(ending.elapsed_s, 3),
        "summary": ending.summary.to_data(),
    }
    output = Output.stdout()
    output.write(json.dumps(data, indent=2, allow_nan=False) + "\n")
    output.flush()
