"""Runs a task's tests in a sandbox and reads the reward that they leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio

from agentix.api import ExecResult, Sandbox, VerifierError
from agentix.plugins.datasets.harbor.places import TESTS, VERIFIER_LOGS, make_anew, put_scripts
from agentix.plugins.datasets.harbor.reward import BadReward, Reward, read_reward
from agentix.plugins.datasets.harbor.reward_files import RewardFiles, read_reward_files
from agentix.plugins.datasets.harbor.task import TASK_FILE, Stage
from agentix.plugins.datasets.harbor.template import resolve_env

_MOMENT_S = 0.3
_OUTPUT = f"{VERIFIER_LOGS}/test-stdout.txt"
_TAIL = 2000
_COMMAND = f"(exec {TESTS}/test.sh) > {_OUTPUT} 2>&1"


@dataclass(frozen=True, kw_only=True)
class Verifier:
    """The tests of one stage, ready to be run."""

    stage: Stage
    reward_key: str | None
    note: Callable[[str], None]
    bundled: bool = False
    """Whether `/tests` is the image's own."""

    async def run(self, sandbox: Sandbox) -> dict[str, Any]:
        """Grade what is in the sandbox.

        A reward that a process of the agent goes on changing is never taken: its processes are killed, and
        the tests run once more.

        Returns:
            `reward`, `metrics` and where the reward comes from.

        Raises:
            VerifierError: There is no valid reward, or it is changed even then.
        """
        result, files = await self._run_tests(sandbox)
        if files is None:
            self.note(
                "the reward was changed after the tests had ended: the agent's processes were killed, tests run again"
            )
            await sandbox.kill_all()
            result, files = await self._run_tests(sandbox)
            if files is None:
                raise VerifierError("the reward was changed after the tests had ended", detail="reward_changed")
        try:
            reward = read_reward(json_data=files.json, text_data=files.text, key=self.reward_key)
        except BadReward as error:
            raise await self._no_reward(sandbox, str(error), result) from None
        if reward.other is not None:
            self.note(f"reward.json says {reward.value!r} and was taken; reward.txt: {reward.other}")
        return _score(reward, result)

    async def _run_tests(self, sandbox: Sandbox) -> tuple[ExecResult, RewardFiles | None]:
        await self._prepare(sandbox)
        where = f"{self.stage.task.directory / TASK_FILE}: {self.stage.key}verifier.env"
        result = await sandbox.exec(
            _COMMAND,
            user=self.stage.verifier_user,
            env=resolve_env(self.stage.verifier_env, where=where),
            output_limit=_TAIL,
        )
        first = await self._read(sandbox, result)
        await anyio.sleep(_MOMENT_S)
        second = await self._read(sandbox, result)
        return result, first if first == second else None

    async def _prepare(self, sandbox: Sandbox) -> None:
        try:
            await make_anew(sandbox, VERIFIER_LOGS)
            if not await sandbox.exists(sandbox.workdir):
                self.note(f"the agent removed the working directory {sandbox.workdir}; the tests found an empty one")
                await sandbox.make_dirs(sandbox.workdir)
            if not self.bundled:
                script = self.stage.test_script
                if script is None:
                    raise VerifierError(f"{self.stage.directory}: there is no tests/test.sh")
                for note in await put_scripts(sandbox, self.stage.tests, TESTS, script=script):
                    self.note(note)
        except OSError as error:
            raise VerifierError(f"{error.filename or VERIFIER_LOGS} could not be made anew: {error}") from error

    async def _read(self, sandbox: Sandbox, result: ExecResult) -> RewardFiles:
        try:
            return await read_reward_files(sandbox)
        except BadReward as error:
            raise await self._no_reward(sandbox, str(error), result) from None

    async def _no_reward(self, sandbox: Sandbox, what: str, result: ExecResult) -> VerifierError:
        tail = await _tail(sandbox)
        said = f"; its output ends with:\n{tail}" if tail else "; it printed nothing"
        shell = result.error_text.strip()
        return VerifierError(
            f"no reward: {what}. test.sh exited with {result.exit_code}{said}" + (f"\n{shell}" if shell else ""),
            detail="no_reward",
        )


def _score(reward: Reward, result: ExecResult) -> dict[str, Any]:
    score: dict[str, Any] = {"reward": reward.value}
    if reward.metrics:
        score["metrics"] = dict(reward.metrics)
    score |= {"reward_source": reward.source, "reward_rule": reward.rule, "verifier_exit": result.exit_code}
    if reward.other is not None:
        score["reward_txt"] = reward.other
    return score


async def _tail(sandbox: Sandbox) -> str:
    result = await sandbox.exec(["tail", "-c", str(_TAIL), _OUTPUT], output_limit=_TAIL, timeout_s=10)
    return result.text.strip()
