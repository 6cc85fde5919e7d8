"""Where things lie in a task's sandbox, and how they are put there."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import anyio

from agentix.api import Capability, Sandbox, Unsupported

_LOGS = "/logs"
AGENT_LOGS = "/logs/agent"
VERIFIER_LOGS = "/logs/verifier"
ARTIFACTS = "/logs/artifacts"
TESTS = "/tests"
SOLUTION = "/solution"


def refuse_shared_files(sandbox: Sandbox) -> None:
    """Refuse a sandbox whose files are the host's: tasks write and remove at fixed absolute paths.

    Raises:
        Unsupported: The provider does not isolate.
    """
    if Capability.ISOLATION not in sandbox.capabilities:
        raise Unsupported(
            f"Harbor tasks use fixed paths such as {TESTS} and {VERIFIER_LOGS}, and the provider "
            f"{sandbox.provider_name} does not isolate: they would be the host's own",
            hint="Use a provider that isolates, such as --provider local.",
        )


async def make_log_dirs(sandbox: Sandbox) -> None:
    """Make the directories below `/logs`, empty and open to every user."""
    for path in (AGENT_LOGS, VERIFIER_LOGS, ARTIFACTS):
        await make_anew(sandbox, path)


async def make_anew(sandbox: Sandbox, path: str) -> None:
    """Make a directory empty, open to every user, and really a directory, whatever an agent made of it.

    Raises:
        OSError: It cannot be done, as where a process goes on writing to it.
    """
    try:
        await sandbox.remove(path)
        await sandbox.make_dirs(path, mode=0o777)
    except OSError:
        if not path.startswith(_LOGS):
            raise
        # What stands in the way may be above it: `/logs` is a file, a dead link, anything but a directory.
        with suppress(OSError):
            await sandbox.remove(_LOGS)
        await sandbox.remove(path)
        await sandbox.make_dirs(path, mode=0o777)


async def put_scripts(sandbox: Sandbox, directories: Iterable[Path], target: str, *, script: Path) -> list[str]:
    """Replace a directory of the sandbox by directories of the host, with a script in it that can be started.

    Args:
        sandbox: Where to.
        directories: Their content is merged, a later one over an earlier one.
        target: The directory; whatever was there is gone.
        script: The file of one of them that is going to be run. It needs no run bit.

    Returns:
        What the task's author should know about the script.

    Raises:
        OSError: Something stands in the way.
    """
    await sandbox.remove(target)
    for directory in directories:
        await sandbox.upload(directory, target)
    data = await anyio.Path(script).read_bytes()
    notes = []
    if not data.startswith(b"#!"):
        notes.append(f"{script.name} has no shebang line; the shell runs it")
    elif data.partition(b"\n")[0].endswith(b"\r"):
        data = data.replace(b"\r\n", b"\n")
        notes.append(f"{script.name} has CRLF line ends; it runs with LF")
    # The run bit is set by writing the file, not by a program of the sandbox, which an agent could have replaced.
    await sandbox.write_file(f"{target}/{script.name}", data, mode=0o755)
    return notes
