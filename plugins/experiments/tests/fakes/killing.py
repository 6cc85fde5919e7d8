"""Runs an experiment in a process that is killed at a boundary of one's choice."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from agentix.api import start_time

DRIVER = r"""
import json, os, re, signal, sys
from pathlib import Path

root, wanted, occurrence, run_id = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
seen, order = {}, []
busy = False


def point(label, before_death=None):
    seen[label] = seen.get(label, 0) + 1
    order.append(label)
    if label == wanted and seen[label] == occurrence:
        if before_death is not None:
            before_death()
        os.kill(os.getpid(), signal.SIGKILL)


def name(path):
    text = os.path.relpath(os.fsdecode(path), root) if os.fsdecode(path).startswith(root) else None
    return text and re.sub(r"\.\d+\.tmp|[0-9a-f]{12,}|(?<=gate/)[ab]-\S+?(?=/|$)|work-\w+", "#", text)


def audit(event, args):
    global busy
    if busy or event not in ("open", "os.rename", "os.mkdir", "os.truncate", "os.remove", "os.rmdir"):
        return
    if event == "open" and not (isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
        return
    place = args[1] if event == "os.rename" else args[0]
    if not isinstance(place, str | bytes) or "run.log" in os.fsdecode(place) or "progress" in os.fsdecode(place):
        return
    busy = True
    try:
        label = name(place)
        if label:
            point(f"{event} {label}")
    finally:
        busy = False


from agentix.plugins.experiments.progress import Board
from agentix.records import commit, durable
from agentix.cli.app import main

fsync, write_all = os.fsync, durable.write_all


def synced(fd):
    label = name(os.readlink(f"/proc/self/fd/{fd}"))
    if label:
        point(f"fsync {label}")
    fsync(fd)


def written(fd, data):
    label = name(os.readlink(f"/proc/self/fd/{fd}")) or "elsewhere"
    point(f"torn {label}", lambda: os.write(fd, bytes(data)[: len(data) // 2]))
    write_all(fd, data)


def told(method):
    real = getattr(Board, method)

    def wrapped(self, trial_id, *more):
        point(f"{method} {more[0]} {trial_id}")
        return real(self, trial_id, *more)

    setattr(Board, method, wrapped)


os.fsync = synced
durable.write_all = commit.write_all = written
for method in ("begin", "phase", "move"):
    told(method)
sys.addaudithook(audit)
real_write = os.write


def half(fd, data):
    label = name(os.readlink(f"/proc/self/fd/{fd}")) if fd > 2 else None
    if label and "ledger" in label:
        point(f"torn {label}", lambda: real_write(fd, bytes(data)[: len(data) // 2]))
    return real_write(fd, data)


os.write = half
code = main("agentix", sys.argv[5:] + ["--out", f"{root}/runs"])
Path(root, "points.json").write_text(json.dumps(order))
sys.exit(code)
"""


def drive(
    root: Path, label: str = "", occurrence: int = 0, *, run_id: str = "r", executor: str = "local", ship: bool = False
) -> int:
    """Run the experiment in `root`, or ship it, and kill that where it comes to a boundary for the n-th time.

    Returns:
        The exit code; the boundaries that were seen are in `points.json` where it was not killed.
    """
    words = ["run", "experiment.yaml", "--id", run_id, "--executor", executor, "-q"]
    words = ["ship", run_id, "experiment.yaml"] if ship else words
    command = [sys.executable, "-c", DRIVER, str(root), label, str(occurrence), run_id, *words]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stdout + done.stderr
    return done.returncode


def outliving(root: Path) -> list[str]:
    """Processes of a run that are still there after they had time to end."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if os.fsencode(root) not in line or int(entry.name) == os.getpid():
                continue
            handle = os.pidfd_open(int(entry.name))
        except OSError:
            continue
        ended, _, _ = select.select([handle], [], [], 20.0)
        os.close(handle)
        found += [] if ended else [line.replace(b"\0", b" ").decode()]
    return found


def is_there(pid: int, root: Path) -> bool:
    """Whether a process that was told of `root` in its environment still runs; its number may be another's by now."""
    deadline = time.monotonic() + 20
    while start_time(pid) is not None and time.monotonic() < deadline:
        try:
            told = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
        if told:
            return os.fsencode(root) in told
        # One that starts another program, or ends, shows nothing for a moment.
        time.sleep(0.001)
    return False
