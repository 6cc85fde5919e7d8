"""One call of `agentix run`: resolve, check, run or resume, report."""

from __future__ import annotations

import time
from pathlib import Path

import anyio

from agentix.api import slug
from agentix.cli.api import Output, SignalLatch, check_run_id, raise_open_files, width_for
from agentix.plugins.experiments.engine.ending import judge, print_ending
from agentix.plugins.experiments.engine.flow import Flow
from agentix.plugins.experiments.engine.live import open_run
from agentix.plugins.experiments.engine.outcome import Outcome
from agentix.plugins.experiments.engine.parts import Parts, load_parts
from agentix.plugins.experiments.engine.preview import preview
from agentix.plugins.experiments.engine.request import RunRequest
from agentix.plugins.experiments.engine.session import run_session


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
    width = parts.submission.experiment.concurrency if request.n_concurrent is None else request.n_concurrent
    allowed = min(width, width_for(raise_open_files()))
    outcome = Outcome(resume_with=request.resume_with(path.name))
    started = time.monotonic()
    with open_run(
        parts,
        path,
        run_id=path.name,
        output=output,
        outcome=outcome,
        verbose=request.verbose,
        quiet=request.quiet,
        plain=request.json,
    ) as live:
        flow = Flow(request, live, width=allowed)
        # A run that is finished already is left as it is, its log too.
        if not flow.finished_before:
            flow.start_log()
        if allowed < width:
            live.notes([f"{allowed} trials at a time, because this process may open few files (ulimit -n)"])
        live.notes(live.notices)
        anyio.run(run_session, flow, live, signals)
    ending = judge(request, path, outcome, live.board, elapsed_s=time.monotonic() - started)
    if outcome.began:
        for note in live.hooks.call("agentix_run_finished", summary=ending.summary.to_data()):
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
