"""The agent `command` with real processes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import anyio.lowlevel
import pytest
from pydantic import ValidationError

from agentix.api import (
    AgentResult,
    EnvFailed,
    HostProcessProvider,
    Limits,
    McpServer,
    RolloutContext,
    Sandbox,
    SandboxConfig,
    Trial,
    Usage,
)
from agentix.plugins.agents.baseline import CommandAgent, CommandConfig, NopAgent

pytestmark = pytest.mark.anyio

INSTANCE = {"instance_id": "one"}


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with HostProcessProvider().session(SandboxConfig()) as sandbox:
        yield sandbox


def context(log_dir: Path | None = None, *, instruction: str = "do it") -> RolloutContext:
    return RolloutContext(
        trial=Trial(trial_id="t", instance=INSTANCE),
        dataset=None,  # type: ignore[arg-type]
        instruction=instruction,
        limits=Limits(),
        log_dir=log_dir,
    )


async def run(sandbox: Sandbox, log_dir: Path | None = None, **options: Any) -> AgentResult:
    agent = CommandAgent(CommandConfig(**options))
    return await agent.solve(sandbox, dict(INSTANCE), model="m", context=context(log_dir))


def executable(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> str:
    """Names the directory that the agent makes, so that it can be looked for."""
    chosen = uuid4().hex
    monkeypatch.setattr("agentix.plugins.agents.baseline.places.secrets.token_hex", lambda _: chosen)
    return chosen


def cleaned(token: str) -> bool:
    places = (Path("/tmp"), *Path(tempfile.gettempdir()).glob("agentix-*/tmp"))
    return not any(os.path.lexists(place / f"agentix-agent-{token}") for place in places)


def until(true: Callable[[], object]) -> None:
    """Poll for what another process does."""
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def nothing_left_of(marker: str) -> bool:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if marker.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                return False
        except OSError:
            continue
    return True


async def test_output_is_kept_in_files_and_the_exit_code_in_the_result(
    sandbox: Sandbox, token: str, tmp_path: Path
) -> None:
    result = await run(sandbox, tmp_path, command="printf 'out\\377'; echo err >&2")
    assert (result.exit_code, result.ended, result.patch) == (0, "completed", "")
    assert (tmp_path / "agent-stdout.txt").read_bytes() == b"out\xff"
    assert (tmp_path / "agent-stderr.txt").read_bytes() == b"err\n"
    assert result.info["stdout_bytes"] == 4
    assert cleaned(token)


async def test_a_failing_program_is_a_result(sandbox: Sandbox, tmp_path: Path) -> None:
    result = await run(sandbox, tmp_path, command=["sh", "-c", "echo why >&2; exit 3"])
    assert (result.exit_code, result.ended) == (3, "agent_error")
    assert result.info["stderr_tail"] == "why"
    told = await run(sandbox, tmp_path, command="""echo '{"api_error_status": 401}'; exit 1""")
    assert told.info["stdout_tail"] == '{"api_error_status": 401}'
    assert "stderr_tail" not in told.info
    killed = await run(sandbox, tmp_path, command="kill -9 $$")
    assert (killed.exit_code, killed.ended, killed.info["signal"]) == (137, "agent_error", "SIGKILL")
    assert (tmp_path / "agent-stdout-3.txt").exists()


@pytest.mark.parametrize("command", ["no-such-agent --fast", ["no-such-agent"], ["/no/such/agent"]])
async def test_a_program_that_is_not_there_is_no_failure_of_the_agent(
    sandbox: Sandbox, token: str, command: Any
) -> None:
    with pytest.raises(EnvFailed, match="does not exist") as caught:
        await run(sandbox, command=command)
    assert caught.value.detail == "agent_setup"
    assert cleaned(token)


async def test_a_script_whose_interpreter_is_not_there_is_told_as_that(
    sandbox: Sandbox, token: str, tmp_path: Path
) -> None:
    script = tmp_path / "agent.sh"
    script.write_text("#!/no/such/interpreter\n")
    with pytest.raises(EnvFailed, match="program or its interpreter does not exist") as caught:
        await run(sandbox, script=str(script))
    assert caught.value.detail == "agent_setup"
    assert cleaned(token)


async def test_127_after_some_work_is_the_agents_own(sandbox: Sandbox) -> None:
    result = await run(sandbox, command="echo working; no-such-program")
    assert (result.exit_code, result.ended) == (127, "agent_error")


@pytest.mark.parametrize("size", [0, 131_071, 131_072, 3_000_000])
async def test_an_instruction_of_any_size_comes_whole_by_file_and_by_stdin(
    sandbox: Sandbox, tmp_path: Path, size: int
) -> None:
    text = ('it\'s "$(x)" `y`\n\\ é🚀 ' * (size // 20 + 1))[:size]
    agent = CommandAgent(
        CommandConfig(command='sha256sum; sha256sum < "$AGENTIX_INSTRUCTION_FILE"; pwd; cat /proc/$$/cmdline > seen')
    )
    log = tmp_path / "log"
    result = await agent.solve(sandbox, dict(INSTANCE), model=None, context=context(log, instruction=text))
    assert result.exit_code == 0
    digest = hashlib.sha256(text.encode()).hexdigest()
    lines = (log / "agent-stdout.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines[:2]] == [digest, digest]
    assert lines[2] == sandbox.workdir
    assert len(await sandbox.read_file("seen")) < 1000


async def test_the_program_knows_its_model_its_instance_and_what_it_was_given(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-canary")
    monkeypatch.setenv("NOT_PASSED", "x")
    await run(
        sandbox, tmp_path, command="env; tr '\\0' '\\n' < /proc/self/cmdline", env={"A": "b c"}, pass_env=["MY_KEY"]
    )
    lines = (tmp_path / "agent-stdout.txt").read_text().splitlines()
    assert {"AGENTIX_MODEL=m", "AGENTIX_INSTANCE_ID=one", "A=b c", "MY_KEY=sk-canary"} <= set(lines)
    assert not any("NOT_PASSED" in line for line in lines)
    file = next(line.partition("=")[2] for line in lines if line.startswith("AGENTIX_INSTRUCTION_FILE="))
    assert not file.startswith(sandbox.workdir)


async def test_a_variable_that_is_not_set_is_told_by_name(sandbox: Sandbox) -> None:
    with pytest.raises(EnvFailed, match="NO_SUCH_KEY is not set") as caught:
        await run(sandbox, command="true", pass_env=["NO_SUCH_KEY"])
    assert caught.value.detail == "missing_key"


async def test_stdin_ends_and_is_no_terminal(sandbox: Sandbox, tmp_path: Path) -> None:
    with anyio.fail_after(60):
        await run(sandbox, tmp_path, command="cat > /dev/null; test -t 0 || echo done")
    assert (tmp_path / "agent-stdout.txt").read_text() == "done\n"


async def test_a_program_that_reads_no_stdin_is_no_obstacle(sandbox: Sandbox) -> None:
    agent = CommandAgent(CommandConfig(command="exec 0<&-; exit 0"))
    with anyio.fail_after(60):
        result = await agent.solve(sandbox, dict(INSTANCE), model=None, context=context(instruction="x" * 3_000_000))
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('#!/bin/sh\necho "run $1 $0"\n', "run a b"),
        ('#!/bin/sh\r\necho "run $1"\r\n', "run a b"),
        ('echo "run $1"\n', "run a b"),
        ("#!/usr/bin/env python3\nimport sys; print('run', sys.argv[1])\n", "run a b"),
    ],
)
async def test_a_script_of_this_machine_is_run_in_the_sandbox(
    sandbox: Sandbox, token: str, tmp_path: Path, content: str, said: str
) -> None:
    script = executable(tmp_path / "agent", content)
    result = await run(sandbox, tmp_path / "log", script=script, args=["a b"])
    assert result.exit_code == 0
    assert (tmp_path / "log/agent-stdout.txt").read_text().startswith(said)
    assert ("script_note" in result.info) == ("\r" in content)
    assert cleaned(token)


async def test_a_binary_is_copied_as_it_is(sandbox: Sandbox, tmp_path: Path) -> None:
    script = tmp_path / "agent"
    shutil.copyfile("/bin/true", script)
    assert (await run(sandbox, script=script)).exit_code == 0


async def test_a_patch_that_the_program_leaves_is_the_answer(sandbox: Sandbox) -> None:
    path = f"{sandbox.workdir}/p.diff"
    result = await run(sandbox, command="printf 'x\\377\\r\\n' > $AGENTIX_PATCH_FILE", patch_file=path)
    assert result.patch.encode("utf-8", "surrogateescape") == b"x\xff\r\n"
    missing = await run(sandbox, command="true", patch_file="/no/such/file")
    assert missing.patch == ""
    assert "there is no /no/such/file" in missing.info["patch_note"]


TRAJECTORY = {
    "schema_version": "ATIF-v1.4",
    "session_id": "s",
    "agent": {"name": "x", "version": "1"},
    "steps": [{"step_id": 1, "source": "agent", "message": "hi", "metrics": {"prompt_tokens": 5, "cost_usd": 0.5}}],
}


async def test_a_trajectory_that_the_program_leaves_is_taken(sandbox: Sandbox, tmp_path: Path) -> None:
    content = json.dumps(TRAJECTORY)
    result = await run(sandbox, tmp_path, command='printf %s "$T" > $AGENTIX_TRAJECTORY_FILE', env={"T": content})
    assert result.trajectory == TRAJECTORY
    assert result.usage == Usage(input=5, cost_usd=0.5, turns=1, tool_calls=0)
    assert json.loads((tmp_path / "trajectory.json").read_text()) == TRAJECTORY


@pytest.mark.parametrize(
    ("command", "note"),
    [
        ("echo '{' > $AGENTIX_TRAJECTORY_FILE", "not JSON"),
        ("echo '{\"steps\": []}' > $AGENTIX_TRAJECTORY_FILE", "schema_version: Field required"),
        ("mkdir $AGENTIX_TRAJECTORY_FILE", "could not be read"),
        ("mkfifo $AGENTIX_TRAJECTORY_FILE", "could not be read"),
    ],
)
async def test_a_bad_trajectory_is_a_note(sandbox: Sandbox, tmp_path: Path, command: str, note: str) -> None:
    with anyio.fail_after(60):
        result = await run(sandbox, tmp_path, command=command)
    assert (result.exit_code, result.ended, result.trajectory, result.usage) == (0, "completed", None, None)
    assert note in result.info["trajectory_note"]
    assert str(tmp_path) not in result.info["trajectory_note"]


async def test_an_expected_trajectory_that_is_not_there_is_a_note(sandbox: Sandbox) -> None:
    result = await run(sandbox, command="true", trajectory_file="/no/such/trajectory.json")
    assert result.info["trajectory_note"] == "there is no /no/such/trajectory.json"
    assert "trajectory_note" not in (await run(sandbox, command="true")).info


async def test_a_flood_of_output_is_kept_up_to_the_limit(sandbox: Sandbox, tmp_path: Path) -> None:
    result = await run(sandbox, tmp_path, command="head -c 3000000 /dev/zero", max_log_mb=1)
    assert (tmp_path / "agent-stdout.txt").stat().st_size == 1 << 20
    assert result.info["stdout_bytes"] == 3_000_000
    assert f"the last {3_000_000 - (1 << 20)} bytes were not kept" in result.info["stdout_note"]


# Other processes of this test may run at the same time, so the marker is this one's own and the beginning of no other.
FOREVER = f"4242.{os.getpid():010}"
STUBBORN = (
    "trap '' TERM INT; printf %s \"$T\" > $AGENTIX_TRAJECTORY_FILE; "
    f"(setsid sleep {FOREVER} &); echo working; touch begun; sleep {FOREVER}"
)


async def stopped_once_it_works(sandbox: Sandbox, known: RolloutContext) -> None:
    """Run `STUBBORN` and cancel it as soon as it has printed its line."""
    agent = CommandAgent(CommandConfig(command=STUBBORN, env={"T": json.dumps(TRAJECTORY)}))
    async with anyio.create_task_group() as group:

        async def solve() -> None:
            await agent.solve(sandbox, dict(INSTANCE), model=None, context=known)
            raise AssertionError("it ended by itself")

        group.start_soon(solve)
        with anyio.fail_after(60):
            while not await anyio.Path(sandbox.workdir, "begun").exists():
                await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()


async def test_a_program_that_is_stopped_leaves_its_output_and_usage_with_the_context(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    known = context(tmp_path)
    await stopped_once_it_works(sandbox, known)
    assert known.kept is not None
    assert known.kept.usage is not None
    assert known.kept.exit_code is None
    assert known.kept.ended is None
    assert (tmp_path / "agent-stdout.txt").read_text() == "working\n"
    assert nothing_left_of(FOREVER)


async def test_cancelling_kills_the_whole_tree_and_keeps_what_was_left(
    sandbox: Sandbox, token: str, tmp_path: Path
) -> None:
    await stopped_once_it_works(sandbox, context(tmp_path))
    assert nothing_left_of(FOREVER)
    assert json.loads((tmp_path / "trajectory.json").read_text()) == TRAJECTORY
    assert cleaned(token)


async def test_without_a_log_directory_nothing_is_written_here(sandbox: Sandbox) -> None:
    agent = CommandAgent(CommandConfig(command="echo x; exit 1"))
    result = await agent.solve(sandbox, {**INSTANCE, "problem_statement": "p"}, model=None)
    assert result.exit_code == 1
    assert "stdout_file" not in result.info


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either command or script"),
        ({"command": "a", "script": "/bin/true"}, "either command or script"),
        ({"command": "a", "args": ["b"]}, "args are for a script"),
        ({"script": "/no/such"}, "there is no file /no/such"),
        ({"command": ""}, "at least 1"),
        ({"command": "a", "patch_file": "relative"}, "pattern"),
        ({"command": "a", "env": {"A=B": "x"}}, "'A=B' is no variable"),
        ({"command": "a", "env": {"AGENTIX_MODEL": "x"}}, "AGENTIX_MODEL: variables that begin with"),
        ({"command": "a", "env": {"BIG": "x" * 200_000}}, "BIG has 200004 bytes"),
        ({"command": "a", "env": {"A": "x"}, "pass_env": ["A"]}, "A is in env and in pass_env"),
        ({"command": "a", "max_log_mb": 0}, "greater than 0"),
        ({"command": "a", "comand": "b"}, "Extra inputs"),
    ],
)
async def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CommandConfig(**options)


async def test_nop_does_nothing(sandbox: Sandbox) -> None:
    assert await NopAgent().solve(sandbox, dict(INSTANCE), model=None) == AgentResult(exit_code=0, ended="completed")


async def test_the_program_is_told_of_mcp_servers(sandbox: Sandbox) -> None:
    agent = CommandAgent(CommandConfig(command='printf %s "$AGENTIX_MCP_SERVERS" > told'))
    offered = context()
    offered.mcp_servers = (McpServer(name="a", transport="stdio", command="/bin/a", args=("-v",)),)
    await agent.solve(sandbox, dict(INSTANCE), model=None, context=offered)
    told = json.loads(await sandbox.read_file("told"))
    assert told == [{"name": "a", "transport": "stdio", "command": "/bin/a", "args": ["-v"]}]
    await agent.solve(sandbox, dict(INSTANCE), model=None, context=context())
    assert await sandbox.read_file("told") == b""


async def test_the_program_is_told_of_skills(sandbox: Sandbox) -> None:
    agent = CommandAgent(CommandConfig(command='printf %s "$AGENTIX_SKILLS_DIR" > told'))
    offered = context()
    offered.skills_dir = "/skills"
    await agent.solve(sandbox, dict(INSTANCE), model=None, context=offered)
    assert await sandbox.read_file("told") == b"/skills"


KILLED = """
import sys, anyio
from agentix.api import HostProcessProvider, SandboxConfig
from agentix.plugins.agents.baseline import CommandAgent, CommandConfig

async def main():
    config = CommandConfig(script=sys.argv[1])
    async with HostProcessProvider().session(SandboxConfig()) as sandbox:
        await CommandAgent(config).solve(sandbox, {"instance_id": "i", "instruction": "sleep"}, model=None)

anyio.run(main)
"""


def test_a_driver_that_is_killed_leaves_nothing_of_the_agent(tmp_path: Path) -> None:
    (place := tmp_path / "tmp").mkdir()
    script = executable(tmp_path / "agent.sh", "#!/bin/sh\necho > $TMPDIR/started\nexec sleep 300\n")
    driver = subprocess.Popen([sys.executable, "-c", KILLED, script], env={**os.environ, "TMPDIR": str(place)})
    try:
        until(lambda: list(place.glob("agentix-*/tmp/started")))
        assert list(place.glob("agentix-*/tmp/agentix-agent-*/instruction.md"))
    finally:
        driver.kill()
        driver.wait()
    until(lambda: not list(place.iterdir()))
