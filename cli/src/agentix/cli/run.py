"""One call of `agentix rollout`: plan, run or resume, summarize."""

from __future__ import annotations

import time

import anyio

from agentix.cli import exit_codes
from agentix.cli.board import Board
from agentix.cli.display import Display, Guarded, make_display
from agentix.cli.ending import missing, print_json
from agentix.cli.execute import Execution, Outcome, Transform
from agentix.cli.limits import raise_open_files, width_for
from agentix.cli.output import Output
from agentix.cli.plan import Plan, make_plan
from agentix.cli.request import RolloutRequest
from agentix.cli.runlog import log, logging_to
from agentix.cli.signals import SignalLatch
from agentix.cli.summary import Ending, count_line, print_text
from agentix.hooks import Hooks
from agentix.models import FailureCode
from agentix.records import Manifest, ResumePlan, Run, RunState, RunWriter, load_run
from agentix.stats import Summary


def run_rollout(request: RolloutRequest) -> int:
    """Do what was asked and return the exit code.

    Raises:
        AgentixError: It could not be done; nothing was run where it is a UsageError.
    """
    plan = make_plan(request)
    return _show_plan(plan) if request.dry_run else run_plan(plan)


def run_plan(plan: Plan, *, transform: Transform | None = None) -> int:
    """Run or resume what was planned, say how it ended, and return the exit code.

    Args:
        plan: What to run.
        transform: Changes each rollout before it is kept.

    Raises:
        AgentixError: It could not be done.
    """
    with SignalLatch() as signals:
        return _run(plan, signals, transform)


def _run(plan: Plan, signals: SignalLatch, transform: Transform | None) -> int:
    request = plan.request
    hooks, notes = Hooks.installed()
    output = Output.stderr() if request.json else Output.stdout()
    with RunWriter(plan.path, plan.manifest, force=request.force) as writer:
        resume = writer.plan(plan.trials, retry=request.retry)
        notices = [*plan.notices, *notes, *writer.notices]
        width = min(request.n_concurrent, width_for(raise_open_files()))
        if width < request.n_concurrent:
            notices.append(f"{width} trials at a time, because this process may open few files (ulimit -n)")
        if any(writer.code_of(trial_id) is FailureCode.VERIFIER_ERROR for trial_id in resume.retried):
            notices.append(
                "a trial that ended with VERIFIER_ERROR runs again as a whole; to score only what it has kept: "
                f"agentix score {plan.path}"
            )
        writer.begin(resume, n_concurrent=width)
        started, outcome = time.monotonic(), Outcome()
        with Guarded(make_display(output, quiet=request.quiet, verbose=request.verbose, plain=request.json)) as display:
            for notice in notices:
                display.say(f"note: {notice}")
            if resume.run:
                outcome = _session(
                    plan, resume, writer, display, hooks=hooks, signals=signals, width=width, transform=transform
                )
            else:
                display.say(f"{plan.path}: finished already, {count_line(resume.kept, (), 0)}")
        elapsed = time.monotonic() - started
        run = load_run(plan.path)
        ending = _ending(plan, run, outcome, notices=notices, elapsed_s=elapsed, manifest=writer.manifest)
    if resume.run:
        for note in hooks.call("agentix_run_finished", summary=ending.summary.to_data()):
            output.line(f"note: {note}")
    if request.json:
        output = Output.stdout()
        print_json(ending, output)
    else:
        print_text(ending, run, output)
    return ending.exit_code


def _session(
    plan: Plan,
    resume: ResumePlan,
    writer: RunWriter,
    display: Display,
    *,
    hooks: Hooks,
    signals: SignalLatch,
    width: int,
    transform: Transform | None,
) -> Outcome:
    request = plan.request
    board = Board(plan.manifest.run_id, Summary.of(Run(plan.path)), to_run=len(resume.run))
    with logging_to(writer.layout.log, verbose=request.verbose):
        line = (
            f"{plan.path}: {count_line(resume.kept, resume.retried, len(resume.run))}; {request.agent.ref} on "
            f"{request.dataset.ref} in {request.provider.ref}, {width} at a time"
        )
        if not request.quiet:
            display.say(line)
        for text in (line, *plan.notices, *writer.notices):
            log.info("%s", text)
        for note in hooks.call("agentix_run_started", run=writer.manifest.model_dump(mode="json")):
            log.warning("%s", note)

        async def execute() -> Outcome:
            execution = Execution(
                plan,
                resume,
                writer=writer,
                board=board,
                display=display,
                hooks=hooks,
                signals=signals,
                n_concurrent=width,
                transform=transform,
            )
            return await execution.run()

        outcome = anyio.run(execute)
        log.info("ended: %s", outcome.stopped or board.state)
    return outcome


def _ending(
    plan: Plan, run: Run, outcome: Outcome, *, notices: list[str], elapsed_s: float, manifest: Manifest
) -> Ending:
    request = plan.request
    summary = Summary()
    names: set[str] = set()
    unreleased: list[str] = [*outcome.unreleased]
    for record in run:
        names.add(record.trial_id)
        unreleased += record.unreleased
        summary.add(record)
    unrun = missing((trial.trial_id for trial in plan.trials), names)
    # What an earlier, larger selection planned and never ran is still missing from the run.
    summary.planned = max(manifest.planned, len(names) + len(unrun))
    return Ending(
        layout=run.layout,
        summary=summary,
        unrun=unrun,
        signal=outcome.signal,
        # Where nothing is left to run, stopping made no difference.
        stopped=outcome.stopped if unrun else None,
        said=outcome.said,
        unreleased=tuple(unreleased),
        notices=tuple(notices),
        fail_under=request.fail_under,
        allow_failures=request.allow_failures,
        elapsed_s=elapsed_s,
        resume_with=plan.resume_with,
        retries=True,
    )


def _show_plan(plan: Plan) -> int:
    """Say what would run; nothing is written."""
    state = RunState.read(plan.path) if plan.path.exists() else None
    output = Output.stdout()
    resume = ResumePlan(plan.trials) if state is None else state.plan(plan.trials, retry=plan.request.retry)
    for notice in (*plan.notices, *(state.notices if state else ())):
        output.line(f"note: {notice}")
    if state is not None and isinstance(state.manifest, Manifest):
        for change in state.manifest.changes(plan.manifest):
            output.line(f"changed: {change}")
    output.line(f"{plan.path}: {count_line(resume.kept, resume.retried, len(resume.run))} (dry run: nothing was run)")
    for trial in resume.run:
        again = " (again)" if trial.trial_id in resume.retried else ""
        output.line(f"  {trial.trial_id}{again}")
    return exit_codes.OK
