"""Runs a task's tests in a sandbox and reads the reward that they leave."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from agentix.api import ExecResult, Sandbox, VerifierError
from agentix.plugins.datasets.harbor.places import TESTS, VERIFIER_LOGS, put_scripts, refuse_shared_files
from agentix.plugins.datasets.harbor.reward import BadReward, Reward, read_reward
from agentix.plugins.datasets.harbor.reward_files import RewardFiles, RewardPlace
from agentix.plugins.datasets.harbor.task import TASK_FILE, Stage
from agentix.plugins.datasets.harbor.template import resolve_env

_OUTPUT = f"{VERIFIER_LOGS}/test-stdout.txt"
_TAIL = 2000
_ROOM = f"{VERIFIER_LOGS}/.room"
_ROOM_BYTES = 1 << 14
_MORE = "the task needs more processes, memory or space than its sandbox may have"
_NO_ROOM = frozenset({errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})
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
        refuse_shared_files(sandbox)
        try:
            outcome = await self._try(sandbox)
        except OSError as error:
            self.note(f"what was left running was killed and the tests ran again: {error}")
            await sandbox.kill_all()
            try:
                outcome = await self._try(sandbox)
            except OSError as again:
                if error.errno == again.errno and again.errno in _NO_ROOM:
                    raise VerifierError(
                        f"no reward: the tests could not be run: {again}", detail="resources", hint=_MORE
                    ) from again
                raise VerifierError(f"no reward: {again}", detail="reward_changed") from again
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

    async def _try(self, sandbox: Sandbox) -> tuple[ExecResult, RewardFiles | BadReward]:
        """Run the tests.

        Raises:
            OSError: They could not be started, or something meddles with what they write.
        """
        if not await sandbox.exists(sandbox.workdir):
            self.note(f"the working directory {sandbox.workdir} was gone; the tests found an empty one")
        await _make_directory(sandbox, sandbox.workdir)
        if not self.bundled:
            script = self.stage.test_script
            if script is None:
                raise VerifierError(f"{self.stage.directory}: there is no tests/test.sh")
            for note in await put_scripts(sandbox, self.stage.tests, TESTS, script=script):
                self.note(note)
        place = await RewardPlace.make(sandbox)
        result = await self._run_tests(sandbox)
        try:
            return result, await place.take()
        except BadReward as error:
            return result, error

    async def _run_tests(self, sandbox: Sandbox) -> ExecResult:
        where = f"{self.stage.task.directory / TASK_FILE}: {self.stage.key}verifier.env"
        env = resolve_env(self.stage.verifier_env, where=where)
        return await sandbox.exec(_COMMAND, user=self.stage.verifier_user, env=env, output_limit=_TAIL)

    async def _no_reward(self, sandbox: Sandbox, what: str, result: ExecResult) -> VerifierError:
        tail = await sandbox.exec(["tail", "-c", str(_TAIL), _OUTPUT], output_limit=_TAIL, timeout_s=10)
        said = "\n".join(text for text in (tail.text.strip(), result.error_text.strip()) if text)
        if result.exit_code in (126, 127) and not self.bundled and self.stage.test_script is not None:
            # Of an interpreter that does not exist, the shell says only that some file is not found.
            first = await anyio.to_thread.run_sync(_first_line, self.stage.test_script)
            said += f"\n(test.sh begins with {first!r})"
        elif result.exit_code in (126, 127) and self.bundled:
            said += f"\n(the image of this separate verifier has to bring {TESTS}; no files of the task reach it)"
        ending = f"; its output ends with:\n{said}" if said else "; it printed nothing"
        message = f"no reward: {what}. test.sh exited with {result.exit_code}{ending}"
        # What the tests say may be missing for the same reason.
        full = await _full(sandbox)
        if full is not None:
            return VerifierError(
                f"nothing can be written in the sandbox any more ({full}); {message}", detail="resources", hint=_MORE
            )
        return VerifierError(message, detail="no_reward")


def _first_line(path: Path) -> str:
    with path.open("rb") as file:
        return file.readline(200).decode("utf-8", "replace").rstrip()


async def _full(sandbox: Sandbox) -> str | None:
    """Why nothing more can be written beside the reward; `None` where it can be, or for another reason cannot."""
    try:
        await sandbox.write_file(_ROOM, bytes(_ROOM_BYTES))
        await sandbox.remove(_ROOM)
    except OSError as error:
        return error.strerror if error.errno in _NO_ROOM else None
    return None


async def _make_directory(sandbox: Sandbox, path: str) -> None:
    # With a slash at its end, a path leads through a link that is to be removed.
    path = path.rstrip("/") or "/"
    try:
        await sandbox.make_dirs(path, mode=0o777)
    except OSError:
        await sandbox.remove(path)
        await sandbox.make_dirs(path, mode=0o777)


def _score(reward: Reward, result: ExecResult) -> dict[str, Any]:
    score: dict[str, Any] = {"reward": reward.value}
    if reward.metrics:
        score["metrics"] = dict(reward.metrics)
    score |= {"reward_source": reward.source, "reward_rule": reward.rule, "verifier_exit": result.exit_code}
    if reward.other is not None:
        score["reward_txt"] = reward.other
    return score
