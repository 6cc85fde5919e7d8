"""Commands really run: what they see, how they end, and that nothing of them stays."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from agentix.api import HostError, UsageError
from agentix.plugins.experiments.commands import Command, CommandRefused, CommandRunner
from agentix.plugins.experiments.commands.log import HEAD, TAIL

pytestmark = pytest.mark.anyio

HOST = {
    "PATH": os.environ["PATH"],
    "HOME": "/home-of-test",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "OTHER": "o",
    "SEEN": "s",
}


def script(text: str, **more: object) -> Command:
    return Command(name="it", form="script", script=text, origin=Path("e.yaml"), **more)  # type: ignore[arg-type]


def run(*argv: str, **more: object) -> Command:
    return Command(name="it", form="run", argv=argv, origin=Path("e.yaml"), **more)  # type: ignore[arg-type]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


async def variables(command: Command, *, inherit: bool, host: Mapping[str, str] = HOST, **given: str) -> dict[str, str]:
    async with CommandRunner(inherit_env=inherit, host_env=host) as runner:
        result = await runner.run(command, variables=given)
    return dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)


async def test_each_form_runs_what_it_says(tmp_path: Path) -> None:
    file = tmp_path / "tool.py"
    file.write_text("#!/usr/bin/env python3\nimport sys\nprint('file', sys.argv[1:])\n")
    file.chmod(0o755)
    uses = Command(name="it", form="uses", file=file, origin=tmp_path / "e.yaml")
    async with CommandRunner() as runner:
        assert (
            await runner.run(run("echo", "{{.CaseDir}}", "a b"), variables={"CASE_DIR": "/c d"})
        ).stdout == "/c d a b\n"
        assert (await runner.run(script("set -euo pipefail; echo <(true) | wc -l"))).stdout.strip() == "1"
        assert (await runner.run(uses)).stdout == "file []\n"


async def test_a_template_does_not_reach_into_a_script() -> None:
    async with CommandRunner() as runner:
        result = await runner.run(script("echo '{{.Names}}'"), variables={"NAMES": "no"})
    assert result.stdout == "{{.Names}}\n"


async def test_without_inheriting_a_command_sees_little_and_what_it_declares() -> None:
    seen = await variables(run("env", env=("SEEN", "ABSENT")), inherit=False, CASE_DIR="/c")
    assert {
        "HOME": "/home-of-test",
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "SEEN": "s",
        "CASE_DIR": "/c",
    }.items() <= seen.items()
    assert "OTHER" not in seen
    assert "ABSENT" not in seen
    assert seen["GIT_TERMINAL_PROMPT"] == "0"


async def test_inheriting_a_command_sees_all_but_what_is_hidden_and_the_steps_variables_win() -> None:
    seen = await variables(run("env", hidden=frozenset({"SEEN"})), inherit=True, OTHER="mine")
    assert seen["OTHER"] == "mine"
    assert "SEEN" not in seen


async def test_there_is_nothing_to_read_and_nobody_to_ask() -> None:
    async with CommandRunner() as runner:
        assert (await runner.run(script("read -r line; echo status $?; tty"), timeout_s=20)).stdout.startswith(
            "status 1\nnot a tty"
        )


@pytest.mark.parametrize(("code", "later"), [(0, False), (3, False), (75, True), (127, False)])
async def test_the_exit_status_is_told(code: int, later: bool) -> None:
    async with CommandRunner() as runner:
        result = await runner.run(script(f"echo why >&2; exit {code}"))
    assert (result.exit_code, result.try_later, result.ok) == (code, later, code == 0)
    assert result.describe() == f"it: exit status {code}: why"


async def test_a_signal_is_told() -> None:
    async with CommandRunner() as runner:
        result = await runner.run(script("kill -SEGV $$"))
    assert (result.signal, result.exit_code, result.timed_out) == ("SIGSEGV", 139, False)


async def test_what_cannot_be_started_is_an_error_or_a_127(tmp_path: Path) -> None:
    async with CommandRunner() as runner:
        assert (await runner.run(run("no-such-program"))).exit_code == 127
        with pytest.raises(HostError, match="cannot be started"):
            await runner.run(run("true"), cwd=tmp_path / "absent")
        with pytest.raises(HostError, match="cannot be started"):
            await runner.run(run("true"), variables={"BIG": "x" * 200_000})
        with pytest.raises(UsageError, match="there is no variable"):
            await runner.run(run("echo", "{{.CaseDri}}"), variables={"CASE_DIR": "/c"})
        assert (await runner.run(run("true"))).ok


TREE = """
trap '' TERM
setsid bash -c 'trap "" TERM; echo $$ > grandchild; exec sleep 1000' &
nohup sh -c 'echo $$ > orphan; exec sleep 1000' > /dev/null 2>&1 &
echo $$ > parent
until [ -s grandchild ] && [ -s orphan ]; do :; done
echo begun
"""


def pids(directory: Path) -> list[int]:
    return [int((directory / name).read_text()) for name in ("parent", "grandchild", "orphan")]


async def test_at_its_timeout_everything_it_started_is_dead(tmp_path: Path) -> None:
    async with CommandRunner() as runner:
        # On a machine that is busy it takes longer to begin.
        for timeout_s in (2, 8, 32, 128):
            place = tmp_path / str(timeout_s)
            place.mkdir()
            result = await runner.run(script(TREE + "sleep 1000"), cwd=place, timeout_s=timeout_s)
            assert result.timed_out
            assert f"timed out after {timeout_s} s" in result.describe()
            if "begun" in result.stdout:
                break
    assert "begun" in result.stdout
    assert not any(alive(pid) for pid in pids(place))


async def test_when_it_is_cancelled_everything_it_started_is_dead(tmp_path: Path) -> None:
    async with CommandRunner() as runner:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: runner.run(script(TREE + "touch ready; sleep 1000"), cwd=tmp_path))
            with anyio.fail_after(60):
                while not (tmp_path / "ready").exists():
                    await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        assert not any(alive(pid) for pid in pids(tmp_path))
        assert (await runner.run(run("true"))).ok


async def test_what_it_leaves_running_is_ended_too(tmp_path: Path) -> None:
    async with CommandRunner() as runner:
        result = await runner.run(script(TREE), cwd=tmp_path, timeout_s=60)
        assert (result.ok, result.killed) == (True, True)
        assert not any(alive(pid) for pid in pids(tmp_path))
        assert not (await runner.run(run("true"))).killed


async def test_one_command_ends_no_other(tmp_path: Path) -> None:
    async with CommandRunner() as runner:
        results = {}

        async def one(name: str, text: str, timeout_s: float) -> None:
            results[name] = await runner.run(script(text), timeout_s=timeout_s)

        async with anyio.create_task_group() as group:
            group.start_soon(one, "slow", "sleep 1000 & sleep 1000", 0.3)
            group.start_soon(one, "leaves", "setsid sleep 1000 & exit 0", 60)
            group.start_soon(one, "good", "sleep 0.6; echo done", 60)
    assert results["slow"].timed_out
    assert results["leaves"].killed
    assert results["good"].stdout == "done\n"


async def test_a_thousand_commands_leave_neither_files_nor_processes(tmp_path: Path) -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    def children() -> set[str]:
        return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())

    before, was = open_files(), children()
    limiter = anyio.CapacityLimiter(8)
    codes = []
    async with CommandRunner() as runner:

        async def one(number: int) -> None:
            async with limiter:
                codes.append((await runner.run(run("true"), log=tmp_path / "log")).exit_code)
                assert open_files() < before + 200

        async with anyio.create_task_group() as group:
            for number in range(1000):
                group.start_soon(one, number)
    assert codes == [0] * 1000
    assert open_files() <= before + 2
    assert children() <= was


async def test_a_log_keeps_the_beginning_and_the_end_of_a_lot(tmp_path: Path) -> None:
    log = tmp_path / "deep" / "it.log"
    async with CommandRunner() as runner:
        result = await runner.run(
            script("echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last >&2"), log=log
        )
    content = log.read_bytes()
    assert content.startswith(b"first\nxxx")
    assert content.endswith(b"\nlast\n")
    assert b"bytes left out" in content
    assert len(content) < HEAD + TAIL + 100
    assert len(result.stdout) < 200_000


async def test_a_secret_is_in_the_environment_and_nowhere_else(tmp_path: Path) -> None:
    secret = "s3cret-value-of-a-key"
    log = tmp_path / "log"
    text = (
        '[ "$LLM_API_KEY" = s3cret-"value-of-a-key" ] && printf %s "$LLM_API_KEY";'
        ' printf %s "${LLM_API_KEY:0:9}"; sleep 0.2;'
        ' echo "${LLM_API_KEY:9}"; tr "\\0" " " < /proc/$$/cmdline'
    )
    async with CommandRunner() as runner:
        result = await runner.run(script(text), secrets={"LLM_API_KEY": secret}, log=log)
        assert secret.encode() not in log.read_bytes()
        assert secret not in result.stdout + result.stderr
        assert result.stdout.startswith("******\n")
        with pytest.raises(CommandRefused, match="stands among its words"):
            await runner.run(run("echo", f"Bearer {secret}"), secrets={"LLM_API_KEY": secret})
        with pytest.raises(UsageError, match="no variable"):
            await runner.run(run("echo", "{{.LLMAPIKey}}"), secrets={"LLM_API_KEY": secret})


async def test_what_the_body_raises_comes_out_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with CommandRunner() as runner:
            await runner.run(run("true"))
            _ = 1 / 0
