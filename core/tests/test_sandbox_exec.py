from __future__ import annotations

import hashlib
import math
import os
import signal
import time
from pathlib import Path

import anyio
import pytest

from agentix.errors import EnvFailed
from agentix.models import ExecResult, SandboxConfig
from agentix.sandbox import HostProcessProvider, Sandbox

pytestmark = pytest.mark.anyio


async def test_a_string_is_run_by_bash(sandbox: Sandbox) -> None:
    result = await sandbox.exec("echo $BASH_VERSION; [[ a == a ]] && echo $((1 + 1))")
    assert result.text.splitlines()[1] == "2"


async def test_a_string_is_run_by_sh_where_there_is_no_bash(tmp_path: Path, sandbox: Sandbox) -> None:
    # The directories of a system are searched too, so the runtime's own search is asked.
    from agentix.runtime.execution import _find

    (tmp_path / "sh").symlink_to("/bin/sh")
    assert _find(b"sh", [os.fsencode(tmp_path)]) == os.fsencode(tmp_path / "sh")
    assert _find(b"bash-that-is-not-there", [os.fsencode(tmp_path)]) is None


async def test_a_list_is_run_without_a_shell(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["printf", "%s|", "$HOME", "a b", "*", ""])
    assert result.stdout == b"$HOME|a b|*||"


@pytest.mark.parametrize("code", [0, 1, 3, 125, 126, 127, 255])
async def test_an_exit_code_is_what_the_process_gave(sandbox: Sandbox, code: int) -> None:
    result = await sandbox.exec(f"exit {code}")
    assert (result.exit_code, result.signal, result.ok) == (code, None, code == 0)


@pytest.mark.parametrize(("signal", "number"), [("KILL", 9), ("TERM", 15), ("SEGV", 11)])
async def test_a_signal_is_named_and_counts_from_128(sandbox: Sandbox, signal: str, number: int) -> None:
    result = await sandbox.exec(f"kill -{signal} $$")
    assert (result.exit_code, result.signal) == (128 + number, f"SIG{signal}")


async def test_a_missing_program_is_a_result(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["no-such-program"])
    assert result.exit_code == 127
    assert b"no-such-program" in result.stderr


@pytest.mark.parametrize("path", ["plain", "directory", "no-shebang"])
async def test_what_cannot_be_executed_is_a_result(sandbox: Sandbox, path: str) -> None:
    await sandbox.write_file("plain", b"#!/bin/sh\n", mode=0o644)
    await sandbox.write_file("no-shebang", b"\x00\x01", mode=0o755)
    await sandbox.make_dirs("directory")
    assert (await sandbox.exec([f"./{path}"])).exit_code == 126


async def test_a_script_that_was_just_written_can_be_executed(sandbox: Sandbox) -> None:
    async def write_and_run(number: int) -> None:
        await sandbox.write_file(f"script-{number}", b"#!/bin/sh\nexit 7\n", mode=0o755)
        assert (await sandbox.exec([f"./script-{number}"])).exit_code == 7

    async with anyio.create_task_group() as group:
        for number in range(30):
            group.start_soon(write_and_run, number)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("size", [0, 9999, 10_000, 10_001, 100_000])
async def test_output_is_exact_up_to_the_limit_and_head_and_tail_above(
    sandbox: Sandbox, stream: str, size: int
) -> None:
    redirect = ">&2" if stream == "stderr" else ""
    script = f"seq 1 30000 | head -c {size} {redirect}"
    result = await sandbox.exec(script, output_limit=10_000)
    whole = "".join(f"{number}\n" for number in range(1, 30_001)).encode()[:size]
    kept = getattr(result, stream)
    assert getattr(result, f"{stream}_bytes") == size
    assert result.truncated == (size > 10_000)
    assert kept == (whole if size <= 10_000 else whole[:5000] + whole[-5000:])


async def test_nothing_may_be_kept(sandbox: Sandbox) -> None:
    result = await sandbox.exec("echo hello", output_limit=0)
    assert (result.stdout, result.stdout_bytes, result.truncated) == (b"", 6, True)


async def test_a_multibyte_character_split_over_pieces_stays_whole(sandbox: Sandbox) -> None:
    text = "a" * 4095 + "é" * 5000 + "🚀\n"
    await sandbox.write_file("text", text.encode())
    assert (await sandbox.exec("dd if=text bs=1 status=none")).text == text
    assert (await sandbox.exec("cat text")).text == text


async def test_bytes_stay_bytes(sandbox: Sandbox) -> None:
    assert (await sandbox.exec(r"printf '\324\377\000'")).stdout == b"\xd4\xff\x00"
    result = await sandbox.exec("head -c 3000000 /dev/urandom | tee random", output_limit=4_000_000)
    digest = (await sandbox.exec("sha256sum random")).text.split()[0]
    assert hashlib.sha256(result.stdout).hexdigest() == digest
    assert hashlib.sha256(await sandbox.read_file("random")).hexdigest() == digest
    assert "\ufffd" in (await sandbox.exec(r"printf '\324'")).text


async def test_empty_streams_are_empty_bytes(sandbox: Sandbox) -> None:
    nothing = await sandbox.exec(["true"])
    assert (nothing.stdout, nothing.stderr) == (b"", b"")
    error = await sandbox.exec("echo e >&2")
    assert (error.stdout, error.stderr) == (b"", b"e\n")


@pytest.mark.parametrize("pty", [False, True])
async def test_a_megabyte_on_one_line_stays_apart_by_stream(sandbox: Sandbox, pty: bool) -> None:
    script = "head -c 1000000 /dev/zero | tr '\\0' o; head -c 1000000 /dev/zero | tr '\\0' e >&2"
    result = await sandbox.exec(script, output_limit=3_000_000, pty=pty)
    out, err = b"o" * 1_000_000, b"e" * 1_000_000
    assert (result.stdout, result.stderr) == ((out + err, b"") if pty else (out, err))


async def test_two_hundred_commands_twenty_at_a_time_each_have_their_code(sandbox: Sandbox) -> None:
    codes: list[int] = []
    limiter = anyio.CapacityLimiter(20)

    async def run(command: str) -> None:
        async with limiter:
            codes.append((await sandbox.exec(command)).exit_code)

    async with anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(run, "true")
            group.start_soon(run, "exit 3")
    assert sorted(codes) == [0] * 100 + [3] * 100


async def test_many_commands_run_side_by_side(sandbox: Sandbox) -> None:
    started = time.monotonic()
    async with anyio.create_task_group() as group:
        for _ in range(64):
            group.start_soon(sandbox.exec, "sleep 2")
    # One after the other they would take 128 s.
    assert 2 <= time.monotonic() - started < 100


@pytest.mark.parametrize("script", ["sleep 300 & echo done", "setsid sleep 300 & echo done"])
async def test_it_returns_when_the_process_exits_though_a_child_holds_the_pipe(sandbox: Sandbox, script: str) -> None:
    result = await sandbox.exec(f"{script}; echo $! >&2", timeout_s=60)
    assert (result.exit_code, result.stdout, result.timed_out) == (0, b"done\n", False)
    assert result.duration_s < 50
    os.kill(int(result.stderr), 0)


async def test_a_child_left_behind_may_go_on_writing(sandbox: Sandbox) -> None:
    script = "(while [ ! -e go ]; do sleep 0.01; done; seq 1 200000; echo $? > wrote) & echo started"
    assert (await sandbox.exec(script)).stdout == b"started\n"
    await sandbox.write_file("go", b"")
    with anyio.fail_after(60):
        while not await sandbox.exists("wrote"):
            await sandbox.exec(["sleep", "0.01"])
    assert await sandbox.read_file("wrote") == b"0\n"


@pytest.mark.parametrize("size", [0, 3, 5_000_000])
async def test_stdin_ends_where_its_bytes_end(sandbox: Sandbox, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    assert (await sandbox.exec("wc -c", stdin=data)).text.strip() == str(size)
    (tmp_path / "input").write_bytes(data)
    assert (await sandbox.exec(["cat"], stdin=tmp_path / "input", output_limit=size)).stdout == data


async def test_no_stdin_is_an_empty_one(sandbox: Sandbox) -> None:
    assert (await sandbox.exec("cat; echo end", timeout_s=10)).stdout == b"end\n"


async def test_stdin_that_nobody_reads_holds_nothing_up(sandbox: Sandbox) -> None:
    result = await sandbox.exec(["true"], stdin=b"x" * 20_000_000)
    assert result.exit_code == 0
    closed = await sandbox.exec("exec <&-; echo still here", stdin=b"x" * 20_000_000)
    assert closed.stdout == b"still here\n"


@pytest.mark.parametrize("size", [131_071, 131_072, 3_000_000])
async def test_an_instruction_of_any_size_arrives_by_stdin(sandbox: Sandbox, size: int) -> None:
    pattern = "\"quotes\" 'single' $(x) `y` \\ \n é🚀 ".encode()
    text = (pattern * (size // len(pattern) + 1))[:size]
    result = await sandbox.exec("sha256sum", stdin=text)
    assert result.text.split()[0] == hashlib.sha256(text).hexdigest()


async def test_an_argument_that_the_kernel_cannot_take_fails_early(sandbox: Sandbox) -> None:
    assert (await sandbox.exec(["true", "x" * 131_071])).ok
    with pytest.raises(ValueError, match="argument 1 has 131072 bytes"):
        await sandbox.exec(["true", "x" * 131_072])
    with pytest.raises(ValueError, match=r"the command has 3000000 bytes.*stdin"):
        await sandbox.exec("x" * 3_000_000)
    with pytest.raises(ValueError, match="argument 1 holds a NUL"):
        await sandbox.exec(["echo", "a\0b"])
    with pytest.raises(ValueError, match="empty"):
        await sandbox.exec([])
    with pytest.raises(OSError, match="Argument list too long"):
        await sandbox.exec(["true", *["x" * 131_000] * 30])


async def test_a_variable_that_the_kernel_cannot_take_fails_early_by_name(sandbox: Sandbox) -> None:
    longest = 131_071 - len("PROMPT=")
    assert (await sandbox.exec("echo ${#PROMPT}", env={"PROMPT": "x" * longest})).text.strip() == str(longest)
    with pytest.raises(ValueError, match="variable PROMPT has 200000 bytes"):
        await sandbox.exec("true", env={"PROMPT": "x" * 200_000})
    with pytest.raises(ValueError, match="'A=B' cannot be the name"):
        await sandbox.exec("true", env={"A=B": ""})
    with pytest.raises(ValueError, match="variable PROMPT"):
        async with HostProcessProvider().session(SandboxConfig(env={"PROMPT": "x" * 200_000})):
            pass


async def test_the_environment_is_what_was_set_and_nothing_of_the_host(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "1")
    config = SandboxConfig(env={"FROM_CONFIG": "c", "BOTH": "config"})
    async with HostProcessProvider().session(config) as other:
        result = await other.exec(["/usr/bin/env"], env={"BOTH": "call", "FROM_CALL": "1"})
    env = dict(line.split("=", 1) for line in result.text.splitlines())
    assert set(env) == {"PATH", "HOME", "LANG", "TMPDIR", "USER", "LOGNAME", "FROM_CONFIG", "BOTH", "FROM_CALL"}
    assert (env["BOTH"], env["FROM_CONFIG"], env["HOME"]) == ("call", "c", other.workdir)


async def test_commands_start_in_the_working_directory_or_below(sandbox: Sandbox) -> None:
    assert (await sandbox.exec(["pwd"])).text.strip() == sandbox.workdir
    await sandbox.make_dirs("below")
    assert (await sandbox.exec(["pwd"], cwd="below")).text.strip() == f"{sandbox.workdir}/below"
    assert (await sandbox.exec(["pwd"], cwd="/")).text.strip() == "/"
    with pytest.raises(FileNotFoundError) as missing:
        await sandbox.exec(["pwd"], cwd="nowhere")
    assert missing.value.filename == f"{sandbox.workdir}/nowhere"
    await sandbox.write_file("file", b"")
    with pytest.raises(NotADirectoryError):
        await sandbox.exec(["pwd"], cwd="file")


async def test_no_terminal_unless_asked(sandbox: Sandbox) -> None:
    name = "test_" + "x" * 300 + " PASSED"
    result = await sandbox.exec(f"echo {name}; tty", env={"COLUMNS": "1"})
    assert result.text.splitlines() == [name, "not a tty"]


async def test_a_terminal_is_given_where_asked_and_merges_the_streams(sandbox: Sandbox) -> None:
    result = await sandbox.exec("tty >/dev/null && echo out; echo err >&2; cat; echo $TERM", pty=True)
    assert result.stdout == b"out\r\nerr\r\nxterm\r\n"
    assert result.stderr == b""


async def test_a_terminal_takes_input_to_its_end(sandbox: Sandbox) -> None:
    for data in (b"one line\n", b"no newline"):
        result = await sandbox.exec("stty -echo; cat", stdin=data, pty=True, timeout_s=10)
        assert not result.timed_out
        assert data.strip() in result.stdout


async def test_an_unknown_user_is_an_error_of_the_environment(sandbox: Sandbox) -> None:
    with pytest.raises(EnvFailed, match="no user 'nobody-here'"):
        await sandbox.exec("true", user="nobody-here")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
@pytest.mark.parametrize("user", ["nobody", "65534", "65534:65534"])
async def test_a_command_runs_as_the_user_it_was_given(sandbox: Sandbox, user: str) -> None:
    result = await sandbox.exec("id -u; id -G; echo $USER; echo hi > /dev/stdout", user=user, cwd="/")
    assert result.text.splitlines()[:1] + result.text.splitlines()[-2:] == ["65534", "nobody", "hi"]
    home = await sandbox.exec("echo $HOME", user=user, cwd="/")
    assert home.text != (await sandbox.exec("echo $HOME")).text
    named = await sandbox.exec("echo $HOME", user=user, cwd="/", env={"HOME": "/mine"})
    assert named.text == "/mine\n"


INSPECT = "ls /proc/self/fd; grep -E 'CapEff|SigIgn|SigBlk' /proc/self/status"
OF_THE_C_LIBRARY = 1 << 31 | 1 << 32
"""Two signals that posix_spawn(3) ignores and no program can use."""


def inspected(result: ExecResult) -> tuple[set[str], dict[str, int]]:
    words = result.text.split()
    first = next(position for position, word in enumerate(words) if word.endswith(":"))
    masks = {name: int(mask, 16) for name, mask in zip(words[first::2], words[first + 1 :: 2], strict=True)}
    return set(words[:first]), masks


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
async def test_a_user_gets_no_descriptor_or_privilege_of_the_runtime(sandbox: Sandbox) -> None:
    descriptors, masks = inspected(await sandbox.exec(INSPECT, user="nobody", cwd="/"))
    assert descriptors == {"0", "1", "2", "3"}
    assert masks["SigIgn:"] & ~OF_THE_C_LIBRARY == 0
    assert masks["SigBlk:"] == masks["CapEff:"] == 0


@pytest.mark.parametrize("pty", [False, True])
async def test_a_command_inherits_no_descriptor_and_no_ignored_signal(sandbox: Sandbox, pty: bool) -> None:
    descriptors, masks = inspected(await sandbox.exec(INSPECT, pty=pty))
    assert descriptors == {"0", "1", "2", "3"}
    assert masks["SigBlk:"] == 0
    assert masks["SigIgn:"] & ~OF_THE_C_LIBRARY == 0


async def test_what_whoever_started_the_run_ignores_a_command_does_not(sandbox: Sandbox) -> None:
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGHUP, signal.SIGQUIT)}
    try:
        _, masks = inspected(await sandbox.exec(INSPECT))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert masks["SigIgn:"] & ~OF_THE_C_LIBRARY == 0


@pytest.mark.parametrize("timeout_s", [0, -1, math.nan])
async def test_a_time_limit_must_be_positive(sandbox: Sandbox, timeout_s: float) -> None:
    with pytest.raises(ValueError, match="timeout_s"):
        await sandbox.exec("true", timeout_s=timeout_s)


async def test_an_infinite_time_limit_is_none(sandbox: Sandbox) -> None:
    result: ExecResult = await sandbox.exec("true", timeout_s=math.inf)
    assert result.ok


@pytest.mark.parametrize("pty", [False, True])
async def test_the_kernel_takes_a_command_for_memory_before_the_server(sandbox: Sandbox, pty: bool) -> None:
    server = anyio.Path(f"/proc/{(await sandbox.connect())._greeting['pid']}/oom_score_adj")
    ours = int(await anyio.Path("/proc/self/oom_score_adj").read_text())
    for _ in range(2):
        result = await sandbox.exec("cat /proc/self/oom_score_adj", pty=pty)
        assert int(result.text) == min(ours + 300, 1000)
        with anyio.fail_after(60):
            # It counts for more itself for as long as it starts something.
            while int(await server.read_text()) != ours:  # noqa: ASYNC110
                await anyio.sleep(0.01)
