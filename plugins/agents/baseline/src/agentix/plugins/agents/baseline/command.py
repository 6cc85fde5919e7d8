"""Any program inside the sandbox as an agent."""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from agentix.api import AgentFailed, AgentResult, EnvFailed, ExecResult, RolloutContext, SandboxGone
from agentix.plugins.agents.baseline.config import CommandConfig
from agentix.plugins.agents.baseline.logs import OutputFile
from agentix.plugins.agents.baseline.places import Places
from agentix.plugins.agents.baseline.program import command_line, environment
from agentix.plugins.agents.baseline.trajectory import take_trajectory

if TYPE_CHECKING:
    from agentix.api import CommandStream, Sandbox

_MIB = 1 << 20
_MAX_PATCH_BYTES = 256 * _MIB
_NOT_STARTED = (126, 127)
_CLEANUP_S = 10.0


class CommandAgent:
    """Runs a program inside the sandbox, as the agent's user.

    The program gets the instruction on stdin and in the file that `AGENTIX_INSTRUCTION_FILE` names, and besides
    `AGENTIX_INSTANCE_ID`, `AGENTIX_TRAJECTORY_FILE`, where there is a model `AGENTIX_MODEL`, where the task offers MCP
    servers `AGENTIX_MCP_SERVERS` (a JSON list of them), where it brings skills `AGENTIX_SKILLS_DIR`, and with the
    option `patch_file` `AGENTIX_PATCH_FILE`. What it changes in the working directory is its answer, unless it leaves
    a patch.
    """

    name = "command"
    version = version("agentix-rollouts-baseline")
    Config = CommandConfig

    def __init__(self, config: CommandConfig) -> None:
        self._config = config

    async def solve(
        self,
        sandbox: Sandbox,
        instance: dict[str, Any],
        *,
        model: str | None,
        context: RolloutContext | None = None,
    ) -> AgentResult:
        """Run the program to its end.

        Where a limit stops it, what it printed and left until then is kept.

        Raises:
            EnvFailed: The program, or a variable that it needs, is not there.
            AgentFailed: It left a patch file that cannot be read.
        """
        places = Places.of(sandbox)
        user = None if context is None else context.user
        servers = () if context is None else context.mcp_servers
        log_dir = None if context is None else context.log_dir
        task = _instruction(instance) if context is None else context.instruction
        instruction = task.encode("utf-8", "surrogateescape")
        skills = None if context is None else context.skills_dir
        env = environment(self._config, places, instance=instance, model=model, mcp_servers=servers, skills_dir=skills)
        limit = self._config.max_log_mb * _MIB
        info: dict[str, Any] = {}
        ended: ExecResult | None = None
        try:
            await sandbox.make_dirs(places.root, mode=0o700, user=user)
            await sandbox.write_file(places.instruction, instruction, mode=0o600, user=user)
            command = await command_line(self._config, sandbox, places, user=user, info=info)
            with (
                OutputFile(log_dir, "agent-stdout.txt", limit=limit) as out,
                OutputFile(log_dir, "agent-stderr.txt", limit=limit) as err,
            ):
                try:
                    async with sandbox.stream(
                        command,
                        stdin=instruction,
                        cwd=self._config.cwd,
                        env=env,
                        user=user,
                    ) as running:
                        try:
                            await _keep(running, out, err)
                        except anyio.get_cancelled_exc_class():
                            # What it had printed may not have come here yet.
                            with anyio.move_on_after(_CLEANUP_S, shield=True), suppress(Exception):
                                await running.kill()
                                await _keep(running, out, err)
                            raise
                    ended = running.result
                finally:
                    if ended is None and context is not None:
                        with anyio.move_on_after(_CLEANUP_S, shield=True), suppress(SandboxGone, AgentFailed):
                            context.keep(await self._result(None, sandbox, places, out, err, log_dir, info))
            assert ended is not None
            _require_started(ended, out, err)
            return await self._result(ended, sandbox, places, out, err, log_dir, info)
        finally:
            with anyio.move_on_after(_CLEANUP_S, shield=True), suppress(SandboxGone, OSError):
                await sandbox.remove(places.root)

    async def _result(
        self,
        ended: ExecResult | None,
        sandbox: Sandbox,
        places: Places,
        out: OutputFile,
        err: OutputFile,
        log_dir: Path | None,
        info: dict[str, Any],
    ) -> AgentResult:
        """What the program printed and left, whether it ended by itself or (`ended` is None) was stopped."""
        file, expected = self._config.trajectory_file or places.trajectory, self._config.trajectory_file is not None
        taken = await take_trajectory(sandbox, file, log_dir, expected=expected)
        info |= {**taken.info, **_streams(out, err, ended)}
        return AgentResult(
            patch=await self._patch(sandbox, info),
            exit_code=None if ended is None else ended.exit_code,
            trajectory=taken.document,
            usage=taken.usage,
            ended=None if ended is None else "completed" if ended.ok else "agent_error",
            info=info,
        )

    async def _patch(self, sandbox: Sandbox, info: dict[str, Any]) -> str:
        path = self._config.patch_file
        if path is None:
            return ""
        try:
            data = await sandbox.read_file(path, limit=_MAX_PATCH_BYTES)
        except FileNotFoundError:
            info["patch_note"] = f"there is no {path}, so what changed is the answer"
            return ""
        except OSError as error:
            raise AgentFailed(f"the patch file {path} could not be read: {error}", detail="patch_file") from error
        return data.decode("utf-8", "surrogateescape")


async def _keep(running: CommandStream, out: OutputFile, err: OutputFile) -> None:
    async for chunk in running:
        (out if chunk.stream == "stdout" else err).write(chunk.data)


def _instruction(instance: dict[str, Any]) -> str:
    for key in ("instruction", "problem_statement"):
        if isinstance(text := instance.get(key), str):
            return text
    raise EnvFailed("the instance has no instruction", detail="no_instruction")


def _require_started(ended: ExecResult, out: OutputFile, err: OutputFile) -> None:
    """Tell a program that is not there from one that failed: the shell's exit codes, and no output."""
    if ended.exit_code in _NOT_STARTED and not out.size:
        # Of a script whose interpreter is missing, the kernel says that the script is.
        missing = ended.exit_code == max(_NOT_STARTED)
        what = " or its interpreter does not exist" if missing else " cannot be started"
        said = f": {err.tail}" if err.tail else ""
        raise EnvFailed(
            f"the agent's program{what} in the sandbox (exit code {ended.exit_code}){said}", detail="agent_setup"
        )


def _streams(out: OutputFile, err: OutputFile, ended: ExecResult | None) -> dict[str, Any]:
    info: dict[str, Any] = {"stdout_bytes": out.size, "stderr_bytes": err.size}
    for name, stream in (("stdout", out), ("stderr", err)):
        if stream.path is not None:
            info[f"{name}_file"] = stream.path.name
        if stream.lost:
            info[f"{name}_note"] = f"the last {stream.lost} bytes were not kept (max_log_mb)"
    if ended is not None and ended.signal is not None:
        info["signal"] = ended.signal
    if ended is None or not ended.ok:
        # Some programs tell on stdout why they failed.
        name, tail = ("stderr", err.tail) if err.tail else ("stdout", out.tail)
        if tail:
            info[f"{name}_tail"] = tail
    return info
