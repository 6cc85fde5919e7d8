"""One directory as one archive, the same bytes each time."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, cast

from agentix.api import WalkEntry, open_plain
from agentix.plugins.steps.standard.archive.tar import TarWriter

Format = Literal["tar", "tar.gz", "tar.zst", "zip"]

_LEVEL = 6
_ZSTD_LEVEL = 3
_BUFFER = 1 << 20
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)
_UNIX = 3


def pack(
    out: BinaryIO, top: Path, found: Iterator[WalkEntry], *, format: Format, prefix: bytes, check: Callable[[], None]
) -> tuple[int, int]:
    """Write an archive.

    Args:
        out: Where to, at its beginning.
        top: The directory that is packed.
        found: What is in it.
        format: Of the archive.
        prefix: The directory that everything in the archive is in.
        check: Called often; what it raises ends the writing.

    Returns:
        How many files, and how many bytes they have.

    Raises:
        ValueError: The format cannot hold a name.
        OSError: A file cannot be read, or the archive cannot be written.
    """
    if format == "zip":
        return _pack_zip(out, top, found, prefix=prefix, check=check)
    files = size = 0
    with compressed(out, format) as stream:
        tar = TarWriter(stream, check=check)
        tar.add(prefix, WalkEntry(b"", "directory"), top=top)
        for entry in found:
            tar.add(prefix + b"/" + entry.name, entry, top=top)
            files += entry.kind == "file"
            size += entry.size
        tar.close()
    return files, size


@contextmanager
def compressed(out: BinaryIO, format: Format) -> Iterator[BinaryIO]:
    """A stream into `out` that compresses as the format says."""
    if format == "tar":
        yield out
        return
    with _compressor(out, format) as packed, io.BufferedWriter(packed, _BUFFER) as stream:
        yield cast("BinaryIO", stream)


def _compressor(out: BinaryIO, format: Format) -> io.RawIOBase:
    if format == "tar.gz":
        # Without a name and a time in its header, the same content gives the same bytes.
        stream = gzip.GzipFile("", "wb", compresslevel=_LEVEL, fileobj=out, mtime=0)
        return cast("io.RawIOBase", stream)
    import zstandard

    compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True)
    return cast("io.RawIOBase", compressor.stream_writer(out, closefd=False))


def _pack_zip(
    out: BinaryIO, top: Path, found: Iterator[WalkEntry], *, prefix: bytes, check: Callable[[], None]
) -> tuple[int, int]:
    files = size = 0
    buffer = memoryview(bytearray(_BUFFER))
    with zipfile.ZipFile(out, "w") as archive:
        for entry in found:
            check()
            member = _zip_member(prefix + b"/" + entry.name, entry)
            if entry.kind == "directory":
                archive.writestr(member, b"")
                continue
            with open_plain(entry.below(top), buffering=0) as file, archive.open(member, "w") as target:
                left = entry.size
                while got := file.readinto(buffer):
                    target.write(buffer[:got])
                    left -= got
                    check()
            if left:
                raise OSError(f"{os.fsdecode(entry.name)!r} changed while it was packed")
            files += 1
            size += entry.size
    return files, size


def _zip_member(name: bytes, entry: WalkEntry) -> zipfile.ZipInfo:
    try:
        text = name.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"a zip cannot hold the name {name!r}, which is no UTF-8; use format: tar") from None
    directory = entry.kind == "directory"
    member = zipfile.ZipInfo(text + "/" if directory else text, _FIRST_DAY)
    member.create_system = _UNIX
    member.external_attr = (0o040755 if directory else 0o100755 if entry.executable else 0o100644) << 16
    if directory:
        member.external_attr |= 0x10
    else:
        member.compress_type = zipfile.ZIP_DEFLATED
        member.file_size = entry.size
    return member
