"""One call of `agentix run`: resolve, check, run or resume, report."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import anyio

from agentix.api import Hooks, slug
from agentix.cli.api import (
    ExperimentWriter,
    Output,
    SignalLatch,
    check_run_id,
    log,
    logging_to,
    raise_open_files,
    width_for,
)
from agentix.plugins.experiments.engine.closing import Closing, open_publication
from agentix.plugins.experiments.engine.ending import judge, print_ending
from agentix.plugins.experiments.engine.flow import Flow, Outcome
from agentix.plugins.experiments.engine.parts import Parts, load_parts
from agentix.plugins.experiments.engine.preview import preview
from agentix.plugins.experiments.engine.request import RunRequest
from agentix.plugins.experiments.engine.session import Session
from agentix.plugins.experiments.progress import Board, Guarded, make_display


def run_experiment(request: RunRequest) -> int:
    """Do what was asked and return the exit code.

    Raises:
        AgentixError: It could not be done; nothing was run where it is a UsageError.
    """
    parts = load_parts(request)
    run_id = new_run_id(parts, request) if request.run_id is None else check_run_id(request.run_id)
    path = request.out / run_id
    if request.dry_run:
        return anyio.run(preview, request, parts, path)
    with SignalLatch() as signals:
        return _run(request, parts, path, signals)


def _run(request: RunRequest, parts: Parts, path: Path, signals: SignalLatch) -> int:
    output = Output.stderr() if request.json else Output.stdout()
    hooks, notes = Hooks.installed()
    width = parts.submission.experiment.concurrency if request.n_concurrent is None else request.n_concurrent
    allowed = min(width, width_for(raise_open_files()))
    if allowed < width:
        notes.append(f"{allowed} trials at a time, because this process may open few files (ulimit -n)")
    board = Board(path.name, parts.submission.experiment.name)
    started = time.monotonic()
    with (
        ExperimentWriter(path, seen=board.count) as writer,
        Guarded(make_display(output, quiet=request.quiet, plain=request.json or request.verbose)) as display,
        ExitStack() as kept,
    ):

        def start_log() -> None:
            kept.enter_context(logging_to(writer.layout.log, verbose=request.verbose))
            log.info("%s: %s", path, parts.submission.path)

        # A run that is finished already is left as it is, its log too.
        finished = writer.earlier is not None and writer.earlier.incomplete is None
        if not finished:
            start_log()
        for notice in (*parts.notices, *notes, *writer.notices):
            display.note(f"note: {notice}")
            log.info("note: %s", notice)

        publication = kept.enter_context(open_publication(parts, path, hooks=hooks))
        outcome = Outcome(resume_with=request.resume_with(board.run_id))

        async def session() -> None:
            closing = Closing(parts, writer=writer, board=board, display=display, hooks=hooks, publication=publication)
            flow = Flow(
                request,
                parts,
                writer=writer,
                board=board,
                display=display,
                hooks=hooks,
                publication=publication,
                width=allowed,
                outcome=outcome,
                start_log=start_log if finished else None,
            )
            await Session(
                flow,
                parts,
                closing=closing,
                outcome=outcome,
                writer=writer,
                board=board,
                display=display,
                signals=signals,
            ).run()

        anyio.run(session)
    ending = judge(request, path, outcome, board, elapsed_s=time.monotonic() - started)
    if outcome.began:
        for note in hooks.call("agentix_run_finished", summary=ending.summary.to_data()):
            output.line(f"note: {note}")
    print_ending(ending, output, as_json=request.json)
    return ending.exit_code


def new_run_id(parts: Parts, request: RunRequest) -> str:
    """A name that no run has: the experiment's, and when it started."""
    name = slug(parts.submission.experiment.name, longest=80).lstrip("._-") or "run"
    stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    number, run_id = 1, stem
    while (request.out / run_id).exists():
        number += 1
        run_id = f"{stem}-{number}"
    return check_run_id(run_id)
