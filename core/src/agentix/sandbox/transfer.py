"""Copying files and trees between host and sandbox."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from agentix.errors import WireError
from agentix.runtime import archive, wire
from agentix.runtime.transfer import pack
from agentix.sandbox.extract import Extractor, Refusal

if TYPE_CHECKING:
    from agentix.sandbox.connection import Connection

MAX_DOWNLOAD_BYTES = 4 << 30
MAX_DOWNLOAD_ENTRIES = 50_000
_BATCH = 1 << 18


@dataclass(frozen=True, kw_only=True)
class DownloadReport:
    """What came out of a sandbox."""

    entries: int
    bytes: int
    refused: tuple[Refusal, ...]
    """What was left out, and why."""


async def upload(
    connection: Connection, local: Path, remote: bytes, *, user: str | None, exclude: Sequence[str]
) -> None:
    """Copy a file or tree into a sandbox; see `Sandbox.upload`."""
    refused: list[str] = []
    batches = _batches(_packed(local, exclude, refused))
    async with connection.call("upload", {"path": remote, "user": user}) as call:
        while (batch := await anyio.to_thread.run_sync(next, batches, None)) is not None:
            if not await call.send(batch):
                break
        call.end_input()
        await call.result()
    if refused:
        raise OSError(f"not everything below {local} could be uploaded: {'; '.join(refused[:10])}")


def _packed(local: Path, exclude: Sequence[str], refused: list[str]) -> Iterator[bytes]:
    patterns = [os.fsencode(pattern) for pattern in exclude]

    def excluded(path: bytes, name: bytes) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(path, pattern) for pattern in patterns)

    return pack(
        os.fsencode(local),
        chosen=None,
        refuse=lambda path, reason: refused.append(f"{os.fsdecode(path)}: {reason}"),
        admit=lambda entry: True,
        excluded=excluded,
    )


def _batches(pieces: Iterator[bytes]) -> Iterator[bytes]:
    batch = bytearray()
    for piece in pieces:
        batch += piece
        if len(batch) >= _BATCH:
            yield bytes(batch)
            batch.clear()
    yield bytes(batch)


async def download(
    connection: Connection,
    remote: bytes,
    local: Path,
    *,
    max_bytes: int,
    max_entries: int,
    members: Sequence[bytes] | None,
) -> DownloadReport:
    """Copy a file or tree out of a sandbox; see `Sandbox.download`."""
    arguments = {
        "path": remote,
        "max_bytes": max_bytes,
        "max_entries": max_entries,
        "members": None if members is None else list(members),
    }
    reader = archive.TarReader()
    extractor = Extractor(local, max_bytes=max_bytes, max_entries=max_entries)

    def extract(pieces: list[bytes]) -> None:
        try:
            for piece in pieces:
                for entry, content in reader.feed(piece):
                    if entry is not None:
                        extractor.begin(entry)
                    else:
                        extractor.write(content)
                    if extractor.full:
                        return
        except wire.Malformed as error:
            raise WireError(f"the sandbox's runtime sent an archive that is none: {error}") from error

    try:
        async with connection.call("download", arguments) as call:
            pieces: list[bytes] = []
            waiting = 0
            while not extractor.full and (received := await call.receive()) is not None:
                pieces.append(received[1])
                waiting += len(received[1])
                if waiting >= _BATCH:
                    await anyio.to_thread.run_sync(extract, pieces)
                    pieces, waiting = [], 0
            value: Any = None
            if not extractor.full:
                value = await call.result()
                await anyio.to_thread.run_sync(extract, pieces)
            if value is not None and not extractor.full and not reader.ended:
                raise WireError("the sandbox's runtime sent an archive without an end")
    finally:
        extractor.close()
    return DownloadReport(
        entries=extractor.entries, bytes=extractor.bytes, refused=(*extractor.refused, *_reported(value))
    )


def _reported(value: Any) -> Iterator[Refusal]:
    """What the runtime says that it left out; a claim of the sandbox, checked for form only."""
    if value is None:
        return
    try:
        refused, left_out = value["refused"], value["left_out"]
        for path, reason in refused:
            if not isinstance(path, bytes) or not isinstance(reason, str):
                raise TypeError
            yield Refusal(path=path[:4096], reason=reason[:200])
    except (TypeError, KeyError, ValueError) as error:
        raise WireError("the sandbox's runtime reported refusals in a form that is none") from error
    if left_out:
        yield Refusal(path=b"", reason=f"{left_out} more were left out")
