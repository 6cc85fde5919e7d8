"""How a run ended, what is said about it, and the exit code that goes with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentix.api import RunNumbers, load_run
from agentix.cli.api import ExperimentManifest, Layout, Output, RunEnding, listed, missing, plural, print_json, totals
from agentix.plugins.experiments.engine.outcome import Outcome
from agentix.plugins.experiments.engine.request import RunRequest
from agentix.plugins.experiments.progress import Board, agent_table


@dataclass(frozen=True, kw_only=True)
class Ending(RunEnding):
    """How the run of an experiment ended."""

    manifest: ExperimentManifest | None
    failed_steps: tuple[str, ...] = ()
    step_notes: int = 0
    """Steps after trials that did not pass and were let be."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Cases that did not pass the gate, where the run went on without them."""
        return () if self.manifest is None or self.stopped else tuple(self.manifest.rejected)

    @property
    def failed(self) -> bool:
        """Also where a step of the whole run failed."""
        return bool(self.failed_steps) or super().failed

    def own_data(self) -> Mapping[str, object]:
        """The steps that failed or were let be, and the cases that were left out."""
        return {
            "failed_steps": list(self.failed_steps),
            "step_notes": self.step_notes,
            "left_out": list(self.left_out),
        }


def judge(request: RunRequest, path: Path, outcome: Outcome, board: Board, *, elapsed_s: float) -> Ending:
    """Judge a run by what it has on the disk: the board counts a result only once its line is there."""
    layout, manifest = Layout(path), None
    if layout.manifest.exists():
        found = load_run(path).manifest
        manifest = found if isinstance(found, ExperimentManifest) else None
    summary = board.summary
    unrun = missing(outcome.planned, board.recorded)
    summary.planned = max(0 if manifest is None else manifest.planned, len(board.recorded) + len(unrun))
    ended = () if manifest is None else manifest.ended
    return Ending(
        layout=layout,
        summary=summary,
        manifest=manifest,
        unrun=unrun,
        signal=outcome.signal,
        stopped=outcome.stopped,
        unreleased=tuple(board.unreleased),
        failed_steps=tuple(f"{end.step}: {end.message}" for end in ended if not end.ok and not end.warned),
        step_notes=board.step_notes,
        fail_under=request.fail_under,
        allow_failures=request.allow_failures,
        elapsed_s=elapsed_s,
        resume_with=outcome.resume_with,
        retries=True,
    )


def print_ending(ending: Ending, output: Output, *, as_json: bool) -> None:
    """Say how it ended: for people, or as one JSON object on stdout."""
    if as_json:
        print_json(ending, Output.stdout())
        return
    for line in (*totals(ending.summary), *_rows(ending), *_verdict(ending)):
        output.line(line)
    if ending.layout.results.exists():
        output.line(f"results: {ending.layout.results}")


def _rows(ending: Ending) -> Iterable[str]:
    """The numbers of each agent with its model, where there are several."""
    if ending.manifest is None or len(ending.manifest.matrix) < 2:
        return ()
    return agent_table(RunNumbers.of_run(load_run(ending.layout.root)))


def _verdict(ending: Ending) -> list[str]:
    lines = []
    if ending.signal is not None:
        lines.append(f"interrupted by {ending.signal_name}")
    elif ending.stopped:
        lines.append(f"This run did not complete: {ending.stopped}")
    lines += [f"step failed: {step}" for step in ending.failed_steps if step != ending.stopped]
    if ending.summary.step_failures:
        failures = plural(ending.summary.step_failures, "step")
        lines.append(f"{failures} failed after a trial: agentix status {ending.layout.root} --failures")
    if ending.step_notes:
        did = f"{plural(ending.step_notes, 'step')} after a trial did not pass, which is no more than a note"
        lines.append(f"{did}: agentix status {ending.layout.root} --failures")
    if ending.left_out:
        lines.append(f"{plural(len(ending.left_out), 'case')} left out by the gate: {listed(ending.left_out)}")
    if ending.unrun:
        lines.append(ending.lacking)
    if ending.unrun or ending.stopped:
        lines.append(f"  resume with: {ending.resume_with}")
    return [*lines, *ending.last_words()]
