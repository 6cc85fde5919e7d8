"""Where things lie in a task's sandbox, and how they are put there."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from pathlib import Path

import anyio

from agentix.api import Sandbox

AGENT_LOGS = "/logs/agent"
VERIFIER_LOGS = "/logs/verifier"
ARTIFACTS = "/logs/artifacts"
TESTS = "/tests"
SOLUTION = "/solution"

_OPEN = 0o777


async def make_log_dirs(sandbox: Sandbox) -> None:
    """Create the directories below `/logs`, open to every user."""
    for path in (AGENT_LOGS, VERIFIER_LOGS, ARTIFACTS):
        await sandbox.make_dirs(path, mode=_OPEN)


async def make_anew(sandbox: Sandbox, path: str) -> None:
    """Make a directory empty, open to every user, and really a directory, whatever an agent made of it."""
    await sandbox.remove(path)
    try:
        await sandbox.make_dirs(path, mode=_OPEN)
    except OSError:
        # What stands in the way is above it: `/logs` is a file, a dead link, or anything but a directory.
        await sandbox.remove(posixpath.dirname(path))
        await sandbox.make_dirs(path, mode=_OPEN)


async def put_scripts(sandbox: Sandbox, directories: Iterable[Path], target: str, *, script: Path) -> tuple[str, ...]:
    """Replace a directory of the sandbox by directories of the host, with a script in it that can be started.

    Args:
        sandbox: Where to.
        directories: Their content is merged, a later one over an earlier one.
        target: The directory; whatever was there is gone.
        script: The file of one of them that is going to be run. It needs no run bit.

    Returns:
        What the task's author should know about the script.
    """
    await sandbox.remove(target)
    for directory in directories:
        await sandbox.upload(directory, target)
    data = await anyio.Path(script).read_bytes()
    notes = []
    first_line = data.split(b"\n", 1)[0]
    if not data.startswith(b"#!"):
        notes.append(f"{script.name} has no shebang line: it was run by the shell")
    elif first_line.endswith(b"\r"):
        data = data.replace(b"\r\n", b"\n")
        notes.append(f"{script.name} has CRLF line ends: it was run with LF")
    # The run bit is set by writing the file, not by a program of the sandbox that an agent could have replaced.
    await sandbox.write_file(f"{target}/{script.name}", data, mode=0o755)
    return tuple(notes)
