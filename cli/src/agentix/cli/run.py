"""One call of `agentix rollout`: plan, run or resume, summarize."""

from __future__ import annotations

import time
from pathlib import Path

import anyio

from agentix.cli import exit_codes
from agentix.cli.board import Board
from agentix.cli.display import Display, make_display
from agentix.cli.execute import Execution, Outcome
from agentix.cli.guard import Guarded
from agentix.cli.limits import raise_open_files, width_for
from agentix.cli.output import Output
from agentix.cli.plan import Plan, make_plan
from agentix.cli.request import RolloutRequest
from agentix.cli.runlog import log, logging_to
from agentix.cli.summary import Ending, count_line, missing, print_json, print_text
from agentix.hooks import Hooks
from agentix.records import Manifest, ResumePlan, Run, RunState, RunWriter, load_run
from agentix.stats import Summary


def run_rollout(request: RolloutRequest) -> int:
    """Do what was asked and return the exit code.

    Raises:
        AgentixError: It could not be done; nothing was run where it is a UsageError.
    """
    plan = make_plan(request)
    if request.dry_run:
        return _show_plan(plan)
    hooks, notes = Hooks.installed()
    with RunWriter(plan.path, plan.manifest, force=request.force) as writer:
        resume = writer.plan(plan.trials, retry=request.retry)
        width = min(request.n_concurrent, width_for(raise_open_files()))
        notices = [*plan.notices, *notes, *writer.notices]
        if width < request.n_concurrent:
            notices.append(f"{width} trials at a time, because this process may open few files (ulimit -n)")
        writer.begin(resume, n_concurrent=width)
        outcome, elapsed = Outcome(), 0.0
        output = Output.stderr() if request.json else Output.stdout()
        display = Guarded(make_display(output, quiet=request.quiet, verbose=request.verbose, plain=request.json))
        with display:
            for notice in notices:
                display.say(f"note: {notice}")
            if resume.run:
                started = time.monotonic()
                outcome = _session(
                    plan, resume, writer=writer, display=display, hooks=hooks, width=width, notices=notices
                )
                elapsed = time.monotonic() - started
            else:
                display.say(f"{plan.path}: finished already, {count_line(resume.kept, (), 0)}")
        ending = _ending(plan, outcome, notices=notices, elapsed_s=elapsed, manifest=writer.manifest)
    if resume.run:
        for note in hooks.call("agentix_run_finished", summary=ending.summary.to_data()):
            display.say(f"note: {note}")
    if request.json:
        print_json(ending, Output.stdout())
    else:
        print_text(ending, Output.stdout())
    return ending.exit_code


def _session(
    plan: Plan,
    resume: ResumePlan,
    *,
    writer: RunWriter,
    display: Display,
    hooks: Hooks,
    width: int,
    notices: list[str],
) -> Outcome:
    request = plan.request
    board = Board(plan.manifest.run_id, Summary.of(Run(plan.path)), to_run=len(resume.run))
    with logging_to(writer.layout.log, verbose=request.verbose):
        line = (
            f"{plan.path}: {count_line(resume.kept, resume.retried, len(resume.run))}; {request.agent.ref} on "
            f"{request.dataset.ref} in {request.provider.ref}, {width} at a time"
        )
        display.say(line)
        for text in (line, *notices):
            log.info("%s", text)
        for note in hooks.call("agentix_run_started", run=writer.manifest.model_dump(mode="json")):
            log.warning("%s", note)

        async def execute() -> Outcome:
            execution = Execution(
                plan, resume, writer=writer, board=board, display=display, hooks=hooks, n_concurrent=width
            )
            return await execution.run()

        outcome = anyio.run(execute)
        log.info("ended: %s", outcome.stopped or board.state)
    return outcome


def _ending(plan: Plan, outcome: Outcome, *, notices: list[str], elapsed_s: float, manifest: Manifest) -> Ending:
    request = plan.request
    run = load_run(plan.path)
    names: set[str] = set()
    unreleased: list[str] = []
    for record in run:
        names.add(record.trial_id)
        unreleased += record.unreleased
    unrun = missing((trial.trial_id for trial in plan.trials), names)
    # What an earlier, larger selection planned and never ran is still missing from the run.
    planned = max(manifest.planned, len(names) + len(unrun))
    return Ending(
        run=run,
        summary=Summary.of(run, planned=planned),
        unrun=unrun,
        signal=outcome.signal,
        # Where nothing is left to run, stopping made no difference.
        stopped=outcome.stopped if unrun else None,
        unreleased=tuple(unreleased),
        notices=tuple(notices),
        fail_under=request.fail_under,
        allow_failures=request.allow_failures,
        elapsed_s=elapsed_s,
    )


def _show_plan(plan: Plan) -> int:
    """Say what would run; nothing is written."""
    state = RunState.read(plan.path) if Path(plan.path).exists() else None
    output = Output.stdout()
    resume = ResumePlan(plan.trials) if state is None else state.plan(plan.trials, retry=plan.request.retry)
    for notice in (*plan.notices, *(state.notices if state else ())):
        output.line(f"note: {notice}")
    if state is not None and state.manifest is not None:
        for change in state.manifest.changes(plan.manifest):
            output.line(f"changed: {change}")
    output.line(f"{plan.path}: {count_line(resume.kept, resume.retried, len(resume.run))} (dry run: nothing was run)")
    for trial in resume.run:
        again = " (again)" if trial.trial_id in resume.retried else ""
        output.line(f"  {trial.trial_id}{again}")
    return exit_codes.OK
