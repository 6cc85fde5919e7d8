"""Runs one task: the agent's sandbox, then for each stage the agent, what it leaves, and the tests."""

from __future__ import annotations

import posixpath
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio.to_thread

from agentix.api import Earlier, EnvFailed, Flow, Sandbox, TrialError, slug
from agentix.plugins.datasets.harbor.artifacts import Collected, collect_artifacts, place_artifacts, run_collect_hooks
from agentix.plugins.datasets.harbor.combine import StepResult, combine, missed_minimum
from agentix.plugins.datasets.harbor.current_stage import CurrentStage
from agentix.plugins.datasets.harbor.fetching import keep_logs
from agentix.plugins.datasets.harbor.gradable import Gradable, copy_kept
from agentix.plugins.datasets.harbor.healthcheck import wait_healthy
from agentix.plugins.datasets.harbor.network import NetworkPolicy
from agentix.plugins.datasets.harbor.places import (
    AGENT_LOGS,
    SOLUTION,
    TESTS,
    VERIFIER_LOGS,
    make_anew,
    make_log_dirs,
)
from agentix.plugins.datasets.harbor.sandbox_config import verifier_config
from agentix.plugins.datasets.harbor.support import agent_network, refuse_unswitchable, verifier_network
from agentix.plugins.datasets.harbor.task import TASK_FILE, Stage, Task
from agentix.plugins.datasets.harbor.verifier import Verifier

_STEP_SETUP_S = 600.0


@dataclass(frozen=True, kw_only=True)
class Driver:
    """One attempt at one task."""

    task: Task
    flow: Flow
    current: CurrentStage
    reward_key: str | None
    kill_services: bool
    force_build: bool

    async def run(self) -> dict[str, Any]:
        """Run every stage, or grade once more what an earlier attempt has kept.

        Raises:
            EnvFailed: The environment or a step cannot be set up.
            VerifierError: A stage has no valid reward.
        """
        if self.flow.earlier is not None:
            return await self._grade_again(self.flow.earlier)
        sandbox = await self.flow.setup()
        refuse_unswitchable(self.task, sandbox)
        stages = self.task.stages
        results: list[StepResult] = []
        network = agent_network(stages[0])
        for index, stage in enumerate(stages):
            if index:
                await self._between_steps(sandbox)
            if stage.step is not None:
                await self._prepare_step(sandbox, stage)
            separate = stage.verifier_mode == "separate"
            if separate:
                self.flow.prepare_sandbox(verifier_config(stage, force_build=self.force_build))
            network = await self._switch(sandbox, network, agent_network(stage))
            with self.current.stage(sandbox, stage):
                agent = await self.flow.solve(
                    sandbox,
                    instruction=stage.instruction,
                    user=stage.agent_user,
                    timeout_s=stage.agent_timeout_s,
                    name=stage.name,
                )
            if not separate:
                policy = verifier_network(stage, self.task.file.environment.network)
                network = await self._switch(sandbox, network, policy)
            done = Gradable(before=tuple(results), ended=agent.ended) if index == len(stages) - 1 else None
            score = await self._grade(sandbox, stage, done)
            if stage.step is None:
                return score
            results.append(StepResult(name=stage.step.name, ended=agent.ended, score=score))
            missed = missed_minimum(stage.step, results[-1])
            if missed is not None:
                if index < len(stages) - 1:
                    self.flow.note(f"stopped after the step {stage.step.name!r}: {missed}")
                break
        return self._combined(results)

    def _combined(self, results: Sequence[StepResult]) -> dict[str, Any]:
        strategy = self.task.file.multi_step_reward_strategy or "mean"
        return combine(results, strategy=strategy, key=self.reward_key)

    async def _grade_again(self, earlier: Earlier) -> dict[str, Any]:
        """Run the tests of the last stage in a sandbox of their own, on what an earlier attempt has collected."""
        stage = self.task.stages[-1]
        directory = earlier.directory
        if self.flow.log_dir is not None:
            # So that this attempt has all of the answer, also for one after it.
            again = self._log_dir(stage)
            await anyio.to_thread.run_sync(copy_kept, directory, self.flow.log_dir, again and again / "verifier")
            directory = self.flow.log_dir
            self.flow.keep(earlier.data)
        done = Gradable.read(earlier.data, directory)
        score = await self._grade_apart(stage, self._log_dir(stage), done.collected)
        if stage.step is None:
            return score
        return self._combined([*done.before, StepResult(name=stage.step.name, ended=done.ended, score=score)])

    async def _switch(self, sandbox: Sandbox, now: NetworkPolicy, wanted: NetworkPolicy) -> NetworkPolicy:
        if wanted != now:
            await sandbox.set_network(wanted.network, allowed_hosts=wanted.hosts)
        return wanted

    async def _between_steps(self, sandbox: Sandbox) -> None:
        for path in (AGENT_LOGS, VERIFIER_LOGS):
            await make_anew(sandbox, path)
        for path in (TESTS, SOLUTION):
            await sandbox.remove(path)

    async def _prepare_step(self, sandbox: Sandbox, stage: Stage) -> None:
        files = stage.directory / "workdir"
        if files.is_dir():
            await sandbox.upload(files, sandbox.workdir)
            if (files / "setup.sh").is_file():
                script = posixpath.join(sandbox.workdir, "setup.sh")
                command = ["bash", script]
                result = await sandbox.exec(command, user=stage.agent_user, timeout_s=_STEP_SETUP_S, output_limit=8192)
                if not result.ok:
                    how = "took too long" if result.timed_out else f"exited with {result.exit_code}"
                    said = (result.error_text or result.text).strip()[-500:]
                    raise EnvFailed(f"{files / 'setup.sh'}: {how}: {said}", detail="step_setup")
        if stage.healthcheck is not None:
            key = f"{self.task.directory / TASK_FILE}: {stage.key}healthcheck"
            await wait_healthy(sandbox, stage.healthcheck, key=key, user=stage.agent_user)

    async def _grade(self, sandbox: Sandbox, stage: Stage, done: Gradable | None) -> dict[str, Any]:
        logs = self._log_dir(stage)
        await keep_logs(self.flow, sandbox, AGENT_LOGS, None if logs is None else logs / "agent")
        await run_collect_hooks(self.flow, sandbox, stage.collect_hooks)
        # A directory of its own stays behind where this process is killed, so there is one only where it is needed.
        with tempfile.TemporaryDirectory(prefix="agentix-harbor-") if logs is None else nullcontext(logs) as place:
            into = Path(place) / "artifacts"
            separate = stage.verifier_mode == "separate"
            collected: list[Collected] = []
            if separate or logs is not None:
                collected = await collect_artifacts(self.flow, sandbox, stage.artifacts, into, needed=separate)
            if not separate:
                if self.kill_services:
                    await sandbox.kill_all()
                return await self._verify(sandbox, stage, logs, bundled=False)
            if done is not None:
                if self.flow.log_dir is not None:
                    self.flow.keep(replace(done, collected=tuple(collected)).write(self.flow.log_dir))
                await self.flow.close(sandbox)
            return await self._grade_apart(stage, logs, collected)

    async def _grade_apart(self, stage: Stage, logs: Path | None, collected: Sequence[Collected]) -> dict[str, Any]:
        async with self._verifier_sandbox(stage) as fresh:
            await place_artifacts(fresh, collected)
            return await self._verify(fresh, stage, logs, bundled=stage.verifier_image.bundled)

    @asynccontextmanager
    async def _verifier_sandbox(self, stage: Stage) -> AsyncIterator[Sandbox]:
        image = stage.verifier_image
        async with self.flow.fresh_sandbox(verifier_config(stage, force_build=self.force_build)) as sandbox:
            await make_log_dirs(sandbox)
            check = image.environment.healthcheck
            if check is not None:
                key = f"{self.task.directory / TASK_FILE}: {stage.key}verifier.environment.healthcheck"
                await wait_healthy(sandbox, check, key=key)
            yield sandbox

    async def _verify(self, sandbox: Sandbox, stage: Stage, logs: Path | None, *, bundled: bool) -> dict[str, Any]:
        verifier = Verifier(stage=stage, reward_key=self.reward_key, note=self.flow.note, bundled=bundled)
        into = None if logs is None else logs / "verifier"
        try:
            score = await self.flow.score(lambda: verifier.run(sandbox), timeout_s=stage.verifier_timeout_s)
        except TrialError:
            await keep_logs(self.flow, sandbox, VERIFIER_LOGS, into)
            raise
        await keep_logs(self.flow, sandbox, VERIFIER_LOGS, into)
        return score

    def _log_dir(self, stage: Stage) -> Path | None:
        if self.flow.log_dir is None or stage.name is None:
            return self.flow.log_dir
        # Where the flow keeps what the agent itself logs in this step.
        return self.flow.log_dir / slug(stage.name)
