"""Programs of this machine that transports drive."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentix.api import ask_tool, run_tool

pytestmark = pytest.mark.anyio


async def test_a_tool_sees_only_what_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OTHER", "secret")
    monkeypatch.setenv("HF_TOKEN", "named")
    done = await run_tool(["env"], host_env=("HF_TOKEN",), env={"MINE": "1"}, cwd=tmp_path)
    assert done.ok
    seen = dict(line.split("=", 1) for line in done.text.splitlines())
    assert (seen["HF_TOKEN"], seen["MINE"], seen["GIT_TERMINAL_PROMPT"]) == ("named", "1", "0")
    assert "OTHER" not in seen and "PATH" in seen


async def test_it_has_no_terminal_and_nothing_to_read() -> None:
    code = "import os, sys; print(sys.stdin.read() == '', os.isatty(0)); open('/dev/tty')"
    done = await run_tool([sys.executable, "-c", code])
    assert done.text == "True False\n" and done.exit_code == 1


async def test_a_program_that_is_not_there_is_no_success(tmp_path: Path) -> None:
    assert (await run_tool(["no-such-program-at-all"], cwd=tmp_path)).exit_code == 127


def _running(word: str) -> list[Path]:
    return [p for p in Path("/proc").glob("[0-9]*/cmdline") if word.encode() in _read(p)]


async def test_at_the_timeout_all_that_it_started_is_ended(tmp_path: Path) -> None:
    marker = f"31{abs(hash(str(tmp_path))) % 100000}.25"
    done = await run_tool(["sh", "-c", f"setsid sleep {marker} & sleep {marker}"], timeout_s=0.3)
    assert done.timed_out
    assert _running(marker) == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_what_is_asked_sees_only_what_is_named_and_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OTHER", "secret")
    monkeypatch.setenv("HF_TOKEN", "named")
    done = ask_tool(["sh", "-c", "pwd; env; cat; echo no >&2; exit 3"], host_env=("HF_TOKEN",), cwd=tmp_path)
    assert (done.exit_code, done.error_text) == (3, "no\n")
    assert done.text.startswith(f"{tmp_path}\n") and "HF_TOKEN=named\n" in done.text and "OTHER" not in done.text
    assert ask_tool(["no-such-program-at-all"]).exit_code == 127
    with pytest.raises(FileNotFoundError):
        ask_tool(["true"], cwd=tmp_path / "none")
    late = ask_tool(["sh", "-c", "sleep 600 & wait"], timeout_s=0.3)
    assert late.timed_out and not late.ok and late.signal == "SIGKILL"
