"""Looks for known values inside of archives and compressed files, within bounds."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import shutil
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Generator, Iterator
from importlib import import_module
from typing import IO, Any

from agentix.redaction.blocks import Search
from agentix.redaction.git_patches import BinaryParts, TooLarge
from agentix.redaction.pieces import Check, pieces, unchecked
from agentix.redaction.secrets import Secrets
from agentix.redaction.sorts import HEAD, container_of, encoding_of

DEPTH = 5
"""How many archives may stand in one another."""
ROOM, RATIO = 4 << 30, 100
"""Bytes that a file may expand to whatever its size, and by how much it may grow if that is more."""
MEMBERS = 1_000_000

UNREADABLE = "unreadable"
Hit = tuple[str, str]
"""A form, or `UNREADABLE`, and where it is, or why."""


class Opaque(Exception):
    """It cannot be looked into; the message says why."""


class Inside:
    """Looks into one file.

    Args:
        secrets: What to look for.
        size: Bytes of the file, from which follows how much it may expand to.
        check: Called often; what it raises ends the work.
    """

    def __init__(self, secrets: Secrets, *, size: int, check: Check = unchecked) -> None:
        self._secrets = secrets
        self._left = max(ROOM, RATIO * size)
        self._members = MEMBERS
        self._patches = 0
        self._check = check

    def hits(self, file: IO[bytes]) -> Iterator[Hit]:
        """What is in a file that can be read again from its beginning: as it is, and in what it holds if an archive."""
        file.seek(0)
        yield from self._plain(file, "")
        file.seek(0)
        kind = container_of(file.read(HEAD))
        if kind is None and zipfile.is_zipfile(file):
            kind = "zip"
        file.seek(0)
        if kind is not None:
            yield from self._guarded(kind, file, "", 0)

    def _plain(self, file: IO[bytes], member: str) -> Iterator[Hit]:
        """What is in the bytes themselves, and in the text where a mark tells how that is encoded."""
        raw = Search(self._secrets.spans, reach=self._secrets.reach)
        text = Search(self._secrets.spans, reach=self._secrets.reach)
        parts, found_in = BinaryParts(), set[Hit]()
        told: set[str] = set()
        decoder = None
        for number, piece in enumerate(pieces(file, self._check)):
            encoding = encoding_of(piece)[0]
            if number == 0 and encoding != "utf-8":
                decoder = codecs.getincrementaldecoder(encoding)("replace")
            found = raw.feed(piece)
            if decoder is not None:
                found += text.feed(decoder.decode(piece).encode("utf-8", "surrogatepass"))
            for start, _, form in sorted(found):
                if form not in told:
                    told.add(form)
                    yield form, f"{member}byte {start}"
            found_in.update(self.patched(parts.feed(piece), member))
        found_in.update(self.patched(parts.flush(), member))
        yield from sorted(found_in)

    def patched(self, parts: Iterator[bytes], member: str = "") -> Iterator[Hit]:
        """What is in the binary parts of a git patch."""
        shown = f"{member}binary part of a git patch, "
        self._patches += 1
        try:
            for part in parts:
                if self._patches > DEPTH:
                    raise Opaque(f"more than {DEPTH} in one another")
                yield from self._stream(io.BytesIO(part), shown, 1)
        except TooLarge:
            yield UNREADABLE, f"{shown}it is too large"
        except Opaque as error:
            yield UNREADABLE, f"{shown}{error}"
        finally:
            self._patches -= 1

    def _guarded(self, kind: str, file: IO[bytes], member: str, depth: int) -> Iterator[Hit]:
        try:
            if depth >= DEPTH:
                raise Opaque(f"more than {DEPTH} archives in one another")
            yield from self._container(kind, file, member, depth)
        except Opaque as error:
            yield UNREADABLE, f"{member}{error}"
        except (
            OSError,
            EOFError,
            ValueError,
            RuntimeError,  # NotImplementedError too: a method of compression that zipfile does not know
            zlib.error,
            lzma.LZMAError,
            tarfile.TarError,
            zipfile.BadZipFile,
            struct.error,
        ) as error:
            yield UNREADABLE, f"{member}a damaged {kind} file, or one that is made otherwise: {type(error).__name__}"

    def _container(self, kind: str, file: IO[bytes], member: str, depth: int) -> Iterator[Hit]:
        if kind == "zip":
            yield from self._zip(file, member, depth)
        elif kind == "tar":
            yield from self._tar(file, member, depth)
        else:
            yield from self._stream(_unpacked(kind, file), member, depth + 1)

    def _stream(self, file: Any, member: str, depth: int) -> Iterator[Hit]:
        """What is in something that is read once."""
        stream = io.BufferedReader(_Counted(file, self), HEAD * 16)
        kind = container_of(stream.peek(HEAD)[:HEAD])
        if kind == "zip":
            with tempfile.SpooledTemporaryFile(max_size=16 << 20) as spooled:
                shutil.copyfileobj(stream, spooled, 1 << 20)
                spooled.seek(0)
                yield from self._guarded(kind, spooled, member, depth)
        elif kind is not None:
            yield from self._guarded(kind, stream, member, depth)
        else:
            yield from self._plain(stream, member)

    def _zip(self, file: IO[bytes], member: str, depth: int) -> Iterator[Hit]:
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                inner = yield from self._member(info.filename, member)
                yield from self._words(inner, info.comment, info.extra)
                if info.flag_bits & 1:
                    yield UNREADABLE, f"{inner}encrypted"
                elif not info.is_dir():
                    with archive.open(info) as content:
                        yield from self._stream(content, inner, depth + 1)

    def _tar(self, file: IO[bytes], member: str, depth: int) -> Iterator[Hit]:
        with tarfile.open(fileobj=file, mode="r|", errorlevel=2) as archive:
            for info in archive:
                inner = yield from self._member(info.name, member)
                words = [info.linkname, info.uname, info.gname, *info.pax_headers.values()]
                yield from self._words(inner, *(str(word).encode("utf-8", "surrogateescape") for word in words))
                content = archive.extractfile(info) if info.isreg() else None
                if content is not None:
                    yield from self._stream(content, inner, depth + 1)
                # It keeps what it has seen, which is a lot for an archive of a million.
                archive.members = []  # type: ignore[attr-defined]

    def _member(self, name: str, member: str) -> Generator[Hit, None, str]:
        self._check()
        self._members -= 1
        if self._members < 0:
            raise Opaque(f"more than {MEMBERS} files in archives")
        shown = f"{member}member {self._secrets.text(name)}, "
        for form in self._forms(name.encode("utf-8", "surrogateescape")):
            yield form, f"{shown}name"
        return shown

    def _words(self, shown: str, *words: bytes) -> Iterator[Hit]:
        for word in words:
            for form in self._forms(word):
                yield form, f"{shown}header"

    def _forms(self, word: bytes) -> list[str]:
        return sorted({form for _, _, form in self._secrets.spans(word)})

    def take(self, size: int) -> None:
        """Count what came out of an archive.

        Raises:
            Opaque: It is too much.
        """
        self._left -= size
        if self._left < 0:
            raise Opaque("it expands to too much")


class _Counted(io.RawIOBase):
    def __init__(self, file: Any, inside: Inside) -> None:
        self._file = file
        self._inside = inside

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        self._inside.take(len(data))
        buffer[: len(data)] = data
        return len(data)


def _unpacked(kind: str, file: IO[bytes]) -> Any:
    if kind == "gz":
        return gzip.GzipFile(fileobj=file)
    if kind == "bz2":
        return bz2.BZ2File(file)
    if kind == "xz":
        return lzma.LZMAFile(file)
    if kind == "zst":
        try:
            return import_module("zstandard").ZstdDecompressor().stream_reader(file, read_across_frames=True)
        except ImportError:
            raise Opaque("a zst file, and the package zstandard is not installed") from None
    raise Opaque(f"a {kind} file cannot be looked into")
