"""Runs a task's tests in a sandbox and reads the reward that they leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentix.api import ExecResult, Sandbox, VerifierError
from agentix.plugins.datasets.harbor.places import TESTS, VERIFIER_LOGS, make_anew, put_scripts, refuse_shared_files
from agentix.plugins.datasets.harbor.reward import BadReward, Reward, read_reward
from agentix.plugins.datasets.harbor.reward_files import RewardFiles, is_settled, read_reward_files
from agentix.plugins.datasets.harbor.task import TASK_FILE, Stage
from agentix.plugins.datasets.harbor.template import resolve_env

_OUTPUT = f"{VERIFIER_LOGS}/test-stdout.txt"
_TAIL = 2000
# By a shell, which runs a script without a shebang line too, and with what it prints going straight to the file.
_COMMAND = f"(exec {TESTS}/test.sh) > {_OUTPUT} 2>&1"


@dataclass(frozen=True, kw_only=True)
class Verifier:
    """The tests of one stage, ready to be run.

    What an agent has left running may live on while the tests run: some tasks are graded by asking a server that
    it started. Where such a process meddles with what the tests write, everything is killed and the tests run
    once more.
    """

    stage: Stage
    reward_key: str | None
    note: Callable[[str], None]
    bundled: bool = False
    """Whether `/tests` is the image's own."""

    async def run(self, sandbox: Sandbox) -> dict[str, Any]:
        """Grade what is in the sandbox.

        Returns:
            `reward`, `metrics` and where the reward comes from.

        Raises:
            VerifierError: There is no valid reward, or something goes on changing it.
        """
        outcome = await self._try(sandbox)
        if outcome is None:
            self.note(
                "a process that was left running changed what the tests write: all were killed, the tests ran again"
            )
            await sandbox.kill_all()
            outcome = await self._try(sandbox)
        if outcome is None:
            raise VerifierError(
                "something goes on changing the reward after the tests have ended", detail="reward_changed"
            )
        result, files = outcome
        try:
            if isinstance(files, BadReward):
                raise files
            reward = read_reward(json_data=files.json, text_data=files.text, key=self.reward_key)
        except BadReward as error:
            raise await self._no_reward(sandbox, str(error), result) from None
        if reward.other is not None:
            self.note(f"reward.json says {reward.value!r} and was taken; reward.txt: {reward.other}")
        return _score(reward, result)

    async def _try(self, sandbox: Sandbox) -> tuple[ExecResult, RewardFiles | BadReward] | None:
        """Run the tests; `None` where something else changes what they write."""
        refuse_shared_files(sandbox)
        try:
            notes = await self._prepare(sandbox)
        except OSError:
            await sandbox.kill_all()
            try:
                notes = await self._prepare(sandbox)
            except OSError as error:
                raise VerifierError(f"{VERIFIER_LOGS} or {TESTS} cannot be made anew: {error}") from error
        for note in notes:
            self.note(note)
        where = f"{self.stage.task.directory / TASK_FILE}: {self.stage.key}verifier.env"
        env = resolve_env(self.stage.verifier_env, where=where)
        result = await sandbox.exec(_COMMAND, user=self.stage.verifier_user, env=env, output_limit=_TAIL)
        files: RewardFiles | BadReward
        try:
            files = await read_reward_files(sandbox)
        except BadReward as error:
            files = error
        try:
            nothing = RewardFiles(json=None, text=None)
            settled = await is_settled(sandbox, nothing if isinstance(files, BadReward) else files)
        except OSError:
            return None
        return (result, files) if settled else None

    async def _prepare(self, sandbox: Sandbox) -> list[str]:
        notes = []
        await make_anew(sandbox, VERIFIER_LOGS)
        if not await sandbox.exists(sandbox.workdir):
            notes.append(f"the working directory {sandbox.workdir} was gone; the tests found an empty one")
            await sandbox.make_dirs(sandbox.workdir, mode=0o777)
        if self.bundled:
            return notes
        script = self.stage.test_script
        if script is None:
            raise VerifierError(f"{self.stage.directory}: there is no tests/test.sh")
        return notes + await put_scripts(sandbox, self.stage.tests, TESTS, script=script)

    async def _no_reward(self, sandbox: Sandbox, what: str, result: ExecResult) -> VerifierError:
        tail = await sandbox.exec(["tail", "-c", str(_TAIL), _OUTPUT], output_limit=_TAIL, timeout_s=10)
        said = "\n".join(text for text in (tail.text.strip(), result.error_text.strip()) if text)
        ending = f"; its output ends with:\n{said}" if said else "; it printed nothing"
        return VerifierError(f"no reward: {what}. test.sh exited with {result.exit_code}{ending}", detail="no_reward")


def _score(reward: Reward, result: ExecResult) -> dict[str, Any]:
    score: dict[str, Any] = {"reward": reward.value}
    if reward.metrics:
        score["metrics"] = dict(reward.metrics)
    score |= {"reward_source": reward.source, "reward_rule": reward.rule, "verifier_exit": result.exit_code}
    if reward.other is not None:
        score["reward_txt"] = reward.other
    return score
