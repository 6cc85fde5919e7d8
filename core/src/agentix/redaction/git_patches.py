"""What the binary parts of a git patch hold: they are compressed, and written in base 85.

The format is that of `git diff --binary`: https://git-scm.com/docs/git-diff and `emit_binary_diff_body` in git's
`diff.c`. A `literal` is a whole file, a `delta` says which bytes to copy from the old one and which to insert.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator

_MARK = b"GIT binary patch"
_HEAD = re.compile(rb"(literal|delta) [0-9]+\Z")
_LINE = re.compile(rb"[A-Za-z](?:[0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]{5}){1,13}\Z")
_LONGEST = 200
"""Bytes of a line; those of git have 66 at most."""
LARGEST = 64 << 20
"""Bytes of one part, compressed."""


class TooLarge(Exception):
    """A part is too large to be looked into."""


class BinaryParts:
    """Finds the binary parts in pieces of a text, wherever the pieces end."""

    def __init__(self) -> None:
        self._rest = b""
        self._inside = False
        self._kind = b""
        self._coded = bytearray()

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """What the parts hold that end in one piece more.

        Raises:
            TooLarge: A part is too large.
        """
        data = self._rest + piece
        begin = 0
        while True:
            if not self._inside:
                found = data.find(_MARK, begin)
                if found < 0:
                    self._rest = data[max(begin, len(data) - len(_MARK)) :]
                    return
                begin, self._inside = found + len(_MARK), True
            end = data.find(b"\n", begin)
            if end < 0 and len(data) - begin < _LONGEST:
                self._rest = data[begin:]
                return
            yield from self._line(data[begin : end if end >= 0 else begin + _LONGEST])
            if self._inside:
                begin = end + 1 if end >= 0 else begin + _LONGEST

    def flush(self) -> Iterator[bytes]:
        """What the last part holds, at the end."""
        if self._inside:
            yield from self._line(self._rest)
            yield from self._end()

    def _line(self, line: bytes) -> Iterator[bytes]:
        line = line.strip()
        if self._kind and _LINE.match(line):
            first = line[0]
            size = first - 0x40 if first < 0x5B else first - 0x60 + 26
            try:
                self._coded += base64.b85decode(line[1:])[:size]
            except ValueError:
                return
            if len(self._coded) > LARGEST:
                raise TooLarge
            return
        yield from self._end()
        if head := _HEAD.match(line):
            self._kind = head[1]
        elif line:
            self._inside = False

    def _end(self) -> Iterator[bytes]:
        kind, coded = self._kind, bytes(self._coded)
        self._kind, self._coded = b"", bytearray()
        if not coded:
            return
        try:
            unpacked = zlib.decompressobj().decompress(coded, LARGEST + 1)
        except zlib.error:
            return
        if len(unpacked) > LARGEST:
            raise TooLarge
        yield unpacked if kind == b"literal" else _inserted(unpacked)


def _inserted(delta: bytes) -> bytes:
    """The bytes that a delta brings, those apart that do not come one after the other."""
    place = 0
    for _ in range(2):
        while place < len(delta) and delta[place] & 0x80:
            place += 1
        place += 1
    found = bytearray()
    while place < len(delta):
        op = delta[place]
        place += 1
        if op & 0x80:
            place += (op & 0x7F).bit_count()
            found += b"\0"
        else:
            found += delta[place : place + op]
            place += op
    return bytes(found)
