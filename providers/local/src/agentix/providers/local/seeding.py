"""Hands the files of a Dockerfile's context to a new sandbox, which writes them itself, inside its own walls."""

from __future__ import annotations

import marshal
import os
import select
import time
from collections.abc import Iterable
from pathlib import Path

from agentix.api import EnvFailed
from agentix.providers.local.image import Entry

PROGRAM = Path(__file__).with_name("seed.py")
READY = b"\0"

_CHUNK = 1 << 20


def seed_command(interpreter: tuple[str, ...], *, entries: int, status: int) -> list[str]:
    """What to put before the server's command: it writes the entries, reports, and becomes the server."""
    return [*interpreter, "-c", PROGRAM.read_text(encoding="utf-8"), str(entries), str(status)]


def send_entries(entries: Iterable[Entry], descriptor: int, *, limit_s: float) -> None:
    """Write entries to the pipe that a new sandbox reads, and close it.

    Raises:
        EnvFailed: The sandbox does not take them in time, or a file cannot be read any more.
        BrokenPipeError: The sandbox has stopped reading; its report says why.
    """
    deadline = time.monotonic() + limit_s
    os.set_blocking(descriptor, False)
    try:
        for entry in entries:
            # Not the path objects: the other side knows built-in types only.
            _send((entry.path, entry.kind, entry.mode, entry.uid, entry.gid, entry.target), descriptor, deadline)
            if entry.source is not None:
                _send_content(entry.source, descriptor, deadline)
        _send((), descriptor, deadline)
    finally:
        os.close(descriptor)


def read_report(descriptor: int, *, limit_s: float) -> str | None:
    """What the sandbox says about the entries: `None` where all is written.

    An empty string means that it ended without a word.
    """
    deadline = time.monotonic() + limit_s
    report = b""
    while _is_ready(descriptor, select.POLLIN, deadline) and (chunk := os.read(descriptor, 65_536)):
        report += chunk
        if report == READY:
            return None
    if not report:
        return ""
    path, _, reason = marshal.loads(report)  # noqa: S302
    return f"{path}: {reason}"


def _send_content(source: Path, descriptor: int, deadline: float) -> None:
    try:
        with source.open("rb") as file:
            while chunk := file.read(_CHUNK):
                _send(chunk, descriptor, deadline)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise EnvFailed(f"{source} cannot be copied: {error.strerror}") from error
    _send(b"", descriptor, deadline)


def _send(value: object, descriptor: int, deadline: float) -> None:
    data = memoryview(marshal.dumps(value))  # type: ignore[arg-type]
    while data:
        if not _is_ready(descriptor, select.POLLOUT, deadline):
            raise EnvFailed("the sandbox did not take the files of its Dockerfile in time", detail="build_timeout")
        data = data[os.write(descriptor, data[:65_536]) :]


def _is_ready(descriptor: int, event: int, deadline: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
