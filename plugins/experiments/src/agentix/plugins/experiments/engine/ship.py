"""One call of `agentix ship`: what a run may publish goes, as a file says, and the reports are written again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from signal import Signals

import anyio

from agentix.api import RunError, UsageError, load_run
from agentix.cli.api import ExperimentManifest, Output, SignalLatch, StepEnd, exit_codes, plural
from agentix.plugins.experiments.documents import ExperimentError
from agentix.plugins.experiments.engine.agents import Agents
from agentix.plugins.experiments.engine.live import LiveRun, open_run
from agentix.plugins.experiments.engine.models import Keys
from agentix.plugins.experiments.engine.outcome import Outcome
from agentix.plugins.experiments.engine.parts import Datasets, Parts, learn_secrets
from agentix.plugins.experiments.engine.session import run_session
from agentix.plugins.experiments.engine.ship_flows import Preview, Shipping
from agentix.plugins.experiments.engine.ship_request import ShipRequest
from agentix.plugins.experiments.progress import Board, CaseCount
from agentix.plugins.experiments.steps import Checked, check_file

_EXECUTOR = ("executor:", "--executor:")


def ship_run(request: ShipRequest) -> int:
    """Do what was asked and return the exit code.

    Raises:
        AgentixError: It could not be done; nothing was shipped where it is a UsageError.
    """
    manifest = load_run(request.run).manifest
    if not isinstance(manifest, ExperimentManifest):
        raise RunError(f"{request.run}: this is no run of an experiment, and only those are shipped")
    parts = _parts(request, manifest)
    with SignalLatch() as signals:
        return _ship(request, parts, signals)


def _check(request: ShipRequest, manifest: ExperimentManifest) -> Checked:
    """Check the file as the run did, which may have been told on its command line what runs the trials."""
    try:
        return check_file(request.file, commands=request.commands, executor=manifest.executor.uses, trials=False)
    except ExperimentError:
        raise
    except UsageError:
        return check_file(request.file, commands=request.commands, trials=False)


def _parts(request: ShipRequest, manifest: ExperimentManifest) -> Parts:
    checked = _check(request, manifest)
    checked.raise_problems()
    pipeline = checked.pipeline
    if not any(step.publishes for step in pipeline.per_experiment):
        later = any(step.publishes for step in pipeline.per_trial)
        why = "its per_trial steps publish when their trial has ended" if later else "no step of it publishes anything"
        raise UsageError(
            f"{request.file}: there is nothing to run: {why}",
            hint="Add a step such as ship to pipeline.per_experiment.",
        )
    keys = Keys()
    keys.expect(checked.submission.llm_specs.values())
    notices = (*checked.notices, *learn_secrets(checked, keys))
    return Parts(
        submission=checked.submission,
        commands=checked.commands,
        pipeline=pipeline,
        executor=checked.executor,
        provider=None,
        provider_use=None,
        fresh_provider=None,
        kinds=checked.kinds,
        agents=Agents(checked.commands, keys),
        keys=keys,
        datasets=Datasets(),
        # Who runs the trials does not matter here.
        notices=tuple(dict.fromkeys(line for line in notices if not line.startswith(_EXECUTOR))),
    )


def _ship(request: ShipRequest, parts: Parts, signals: SignalLatch) -> int:
    output = Output.stderr() if request.json else Output.stdout()
    outcome = Outcome(resume_with=request.again, began=not request.dry_run)
    with open_run(
        parts,
        request.run,
        run_id=request.run.resolve().name,
        output=output,
        outcome=outcome,
        verbose=request.verbose,
        plain=request.json,
    ) as live:
        manifest = live.writer.go_on()
        _fill(live.board, manifest)
        if not request.dry_run:
            live.start_log(f"{request.run}: shipping as {request.file} says")
        live.notes([*live.notices, *_notices(live)])
        preview = Preview(live, manifest)
        flow = preview if request.dry_run else Shipping(outcome, live.writer)
        anyio.run(run_session, flow, live, signals)
        ended = preview.manifest if request.dry_run else live.writer.manifest
    labels = {step.label for step in parts.pipeline.per_experiment if step.publishes}
    ends = [end for end in ended.ended if end.step in labels]
    code = _exit_code(outcome, () if request.dry_run else ends)
    if request.json:
        withheld = live.publication.withheld
        data = {
            "run_id": manifest.run_id,
            "path": str(request.run),
            "dry_run": request.dry_run,
            "exit_code": code,
            "signal": None if outcome.signal is None else Signals(outcome.signal).name,
            "stopped": outcome.stopped,
            "steps": [end.model_dump(mode="json") for end in ends],
            "shipments": preview.shown,
            "withheld": {"dropped": withheld.dropped, "unredacted": dict(withheld.unredacted)},
        }
        Output.stdout().write(json.dumps(data, indent=2, allow_nan=False) + "\n")
        return code
    for end in () if request.dry_run else ends:
        how = "" if end.ok else "warning: " if end.warned else "step failed: "
        output.line(f"{how}{end.step}: {end.message}")
    if outcome.signal is not None:
        output.line(f"interrupted by {Signals(outcome.signal).name}; do it again with: {request.again}")
    elif outcome.stopped and code:
        output.line(f"  do it again with: {request.again}")
    return code


def _exit_code(outcome: Outcome, ends: Sequence[StepEnd]) -> int:
    if outcome.signal is not None:
        return exit_codes.of_signal(outcome.signal)
    bad = outcome.stopped is not None or any(not end.ok and not end.warned for end in ends)
    return exit_codes.FAILED if bad else exit_codes.OK


def _fill(board: Board, manifest: ExperimentManifest) -> None:
    board.experiment, board.planned, board.state = manifest.experiment, manifest.planned, "closing"
    each = sum(row.trials for row in manifest.matrix)
    for use in manifest.cases:
        if use.label not in manifest.rejected:
            case = board.cases.setdefault(use.label, CaseCount())
            case.of = max(each, case.done)


def _notices(live: LiveRun) -> Iterator[str]:
    manifest, experiment = live.writer.manifest, live.parts.submission.experiment
    if experiment.name != manifest.experiment:
        yield f"the file is of the experiment {experiment.name}, the run of {manifest.experiment}"
    lacking = manifest.planned - len(live.board.recorded)
    if lacking > 0:
        yield f"{lacking} of {plural(manifest.planned, 'trial')} without a result, which are no part of what is shipped"
    went_through = {(step.label, step.fingerprint) for step in manifest.steps}
    for step in live.parts.pipeline.per_trial:
        if step.spec.on_violation == "drop" and (step.label, step.fingerprint()) not in went_through:
            yield f"{step.label} drops trials, and not all went through it as the file has it: only the run drops them"
