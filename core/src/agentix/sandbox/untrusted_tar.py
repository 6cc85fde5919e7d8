"""Unpacking a tar archive that comes out of a sandbox other than through its runtime."""

from __future__ import annotations

import os
import tarfile
from contextlib import closing
from pathlib import Path
from typing import IO

from agentix.runtime import archive
from agentix.sandbox.extract import Extractor, Refusal

_CHUNK = 1 << 18


def unpack_tar(file: IO[bytes], local: Path, *, max_bytes: int, max_entries: int) -> tuple[Refusal, ...]:
    """Put what an untrusted archive holds below a directory, and nothing outside of it.

    Args:
        file: The archive, read from where it stands to its end.
        local: The directory; it is made where it does not exist.
        max_bytes: How much content is written.
        max_entries: How many entries.

    Returns:
        What was left out: devices, hard links, links that lead elsewhere, and all that is too much.

    Raises:
        tarfile.TarError: It is no archive.
        OSError: The directory cannot be written.
    """
    extractor = Extractor(local, max_bytes=max_bytes, max_entries=max_entries)
    with closing(extractor), tarfile.open(fileobj=file, mode="r|") as tar:
        for member in tar:
            entry = archive.Entry(
                os.fsencode(member.name),
                archive.FILE if member.isreg() else member.type,
                mode=member.mode,
                size=member.size if member.isreg() else 0,
                target=os.fsencode(member.linkname) if member.issym() else b"",
            )
            extractor.begin(entry)
            content = tar.extractfile(member) if member.isreg() and not extractor.full else None
            while content is not None and (piece := content.read(_CHUNK)):
                extractor.write(piece)
            if extractor.full:
                break
    return extractor.refused
