"""The commands as a user starts them, and small Harbor tasks to run them on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

BIN = Path(sys.executable).parent
ROOT = Path(__file__).resolve().parents[2]

PLAIN_TOML = """
schema_version = "1.0"
[agent]
timeout_sec = 60.0
[environment]
network_mode = "no-network"
"""

GRADES_42 = """
if [ "$(cat /app/answer.txt 2>/dev/null)" = 42 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


@dataclass(frozen=True)
class Finished:
    """A command that ended."""

    code: int
    out: str
    err: str
    run_dir: Path

    @property
    def said(self) -> str:
        return self.out + self.err

    @property
    def records(self) -> list[dict[str, Any]]:
        file = self.run_dir / "results.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def by_case(self) -> dict[str, dict[str, Any]]:
        return {record["case"].rpartition("/")[2]: record for record in self.records}


class Workshop:
    """A directory with tasks and runs, and the commands started in it.

    Whatever an agent leaves behind can be found by `mark`, which no other process on this machine has in its
    command line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tasks = path / "tasks"
        self.mark = f"mark-{uuid.uuid4().hex[:12]}"

    def task(
        self,
        name: str,
        *,
        test: str = GRADES_42,
        solve: str | None = "echo 42 > /app/answer.txt",
        toml: str = "",
        dockerfile: str = "FROM debian:bookworm-slim\nWORKDIR /app\n",
        instruction: str = "Write 42 into /app/answer.txt.\n",
    ) -> Path:
        """A task directory; by default one whose answer is 42."""
        root = self.tasks / name
        write(root / "task.toml", toml or PLAIN_TOML)
        write(root / "instruction.md", instruction)
        write(root / "environment/Dockerfile", dockerfile)
        write(root / "tests/test.sh", f"#!/bin/bash\n{textwrap.dedent(test)}\n", mode=0o755)
        if solve is not None:
            write(root / "solution/solve.sh", f"#!/bin/bash\n{textwrap.dedent(solve)}\n", mode=0o755)
        return root

    def script(self, name: str, body: str) -> Path:
        """An executable."""
        return write(self.path / name, f"#!/bin/bash\n{textwrap.dedent(body).replace('MARK', self.mark)}\n", mode=0o755)

    def argv(self, *args: str | Path, id: str = "run", tasks: Path | None = None) -> list[str]:
        """The command line of `agentix-run` on the tasks of this directory."""
        dataset = [] if "--dataset" in args else ["--dataset", "harbor", "--dataset-opt", f"path={tasks or self.tasks}"]
        return [str(BIN / "agentix-run"), *dataset, "--provider", "local", "--id", id, *map(str, args)]

    def run(
        self, *args: str | Path, id: str = "run", tasks: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Finished:
        """Run `agentix-run` to its end."""
        return self.command(*self.argv(*args, id=id, tasks=tasks), run_dir=self.path / "runs" / id, env=env)

    def command(self, *argv: str | Path, run_dir: Path | None = None, env: Mapping[str, str] | None = None) -> Finished:
        """Run any command in this directory."""
        done = subprocess.run(
            [str(arg) for arg in argv],
            cwd=self.path,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200", **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=280,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr, run_dir or self.path)

    def start(self, *args: str | Path, id: str = "run") -> subprocess.Popen[str]:
        """Start `agentix-run` and leave it running."""
        return subprocess.Popen(
            self.argv(*args, id=id),
            cwd=self.path,
            env={**os.environ, "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def alive(self) -> list[str]:
        """Command lines, on the whole machine, that carry the mark."""
        return processes(lambda line: self.mark in line)


def write(path: Path, text: str, *, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def processes(wanted: Callable[[str], bool]) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if wanted(line):
                found.append(f"{entry.name}: {line}")
    return found


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    """A workshop; whatever a test did there, no process of an agent may be left."""
    workshop = Workshop(tmp_path)
    yield workshop
    assert workshop.alive() == []
