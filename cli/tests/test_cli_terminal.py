from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios

import pytest


def on_a_terminal(toy, *arguments, columns, env=None) -> tuple[int, str]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("CI", "COLUMNS", "NO_COLOR")}
    process = toy.start(
        *arguments, stdout=theirs, stderr=theirs, text=False, env={**environment, "TERM": "xterm", **(env or {})}
    )
    os.close(theirs)
    data = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:
            break
        if not chunk:
            break
        data += chunk
    os.close(ours)
    return process.wait(timeout=120), data.decode("utf-8", "replace")


@pytest.mark.parametrize("columns", [20, 100])
@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}, {"PYTHONIOENCODING": "ascii"}])
def test_progress_is_drawn_on_a_terminal(toy, columns, env):
    code, seen = on_a_terminal(toy, "--id", "r", columns=columns, env=env)
    assert code == 0
    assert "4/4" in seen
    assert "\x1b[" in seen
    assert "[4/4]" not in seen
    assert "4 resolved" in seen


def test_a_dumb_terminal_gets_plain_lines(toy):
    code, seen = on_a_terminal(toy, "--id", "r", columns=80, env={"TERM": "dumb"})
    assert code == 0
    assert "\x1b" not in seen
    assert "[4/4]" in seen


def test_a_failure_stays_visible_on_a_terminal(toy):
    code, seen = on_a_terminal(toy, "--id", "r", "--dataset-opt", "broken=task-2", columns=120)
    assert code == 3
    assert "task-2-Agent-1  ENV_FAILED" in seen


def test_a_pipe_gets_plain_lines_in_any_encoding(toy):
    process = toy.start("--id", "r", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    seen, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "\x1b" not in seen
    assert seen.count("task-3-Agent-1  reward 1.0") == 1


def test_a_reader_that_goes_away_does_not_end_the_run(toy):
    process = toy.start("--id", "r", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=120) == 0
    assert errors == ""
    assert len(toy.lines("r")) == 4


def test_closed_streams_do_not_end_the_run(toy):
    agent = ["--agent-opt", "noisy=true"]
    process = toy.start("--id", "r", *agent, preexec_fn=lambda: [os.close(fd) for fd in (0, 1, 2)])
    process.stdout.close()
    assert process.wait(timeout=120) == 0
    assert len(toy.lines("r")) == 4


def test_few_open_files_are_enough(toy):
    import resource

    process = toy.start(
        "--id",
        "r",
        "--n-concurrent",
        "100",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128)),
    )
    seen, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "10 trials at a time, because this process may open few files" in seen
