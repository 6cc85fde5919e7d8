"""Tar streams, read and written piece by piece: POSIX ustar with pax records for what does not fit into it.

https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html tells both. The standard `tarfile` takes longer to
import than the whole runtime, and cannot be fed.
"""

from __future__ import annotations

from agentix.runtime.wire import Malformed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BLOCK = 512
FILE, LINK, DIRECTORY = b"0", b"2", b"5"
_PAX = b"x"
_MAX_PAX = 1 << 16
_END = bytes(2 * BLOCK)


class Entry:
    """One member.

    Args:
        path: Relative, without a trailing slash.
        kind: `FILE`, `LINK` or `DIRECTORY`; a reader gives whatever the stream says.
        mode: Permission bits.
        size: Bytes of content.
        target: What a link points to.
        mtime: Seconds since the epoch.
    """

    __slots__ = ("kind", "mode", "mtime", "path", "size", "target")

    def __init__(
        self, path: bytes, kind: bytes, *, mode: int = 0o644, size: int = 0, target: bytes = b"", mtime: int = 0
    ) -> None:
        self.path = path
        self.kind = kind
        self.mode = mode
        self.size = size
        self.target = target
        self.mtime = mtime


def head(entry: Entry) -> bytes:
    """The blocks that come before an entry's content."""
    records = b""
    if len(entry.path) > 100:
        records += _record(b"path", entry.path)
    if len(entry.target) > 100:
        records += _record(b"linkpath", entry.target)
    if entry.size >= 8**11:
        records += _record(b"size", b"%d" % entry.size)
    extended = b""
    if records:
        extended = _block(b"pax", _PAX, 0o644, len(records), b"", 0) + records + padding(len(records))
    return extended + _block(entry.path, entry.kind, entry.mode, entry.size, entry.target, entry.mtime)


def padding(size: int) -> bytes:
    """What fills the last block of `size` bytes of content."""
    return bytes(-size % BLOCK)


def end() -> bytes:
    """What comes after the last entry."""
    return _END


def _record(key: bytes, value: bytes) -> bytes:
    size = len(key) + len(value) + 3
    length = size + len(str(size))
    if len(str(length)) > len(str(size)):
        length += 1
    return b"%d %s=%s\n" % (length, key, value)


def _block(path: bytes, kind: bytes, mode: int, size: int, target: bytes, mtime: int) -> bytes:
    block = bytearray(BLOCK)
    block[0:100] = path[:100].ljust(100, b"\0")
    block[100:108] = b"%07o\0" % (mode & 0o7777)
    block[108:124] = b"0000000\0" * 2
    block[124:136] = b"%011o\0" % (size if size < 8**11 else 0)
    block[136:148] = b"%011o\0" % min(max(mtime, 0), 8**11 - 1)
    block[148:156] = b" " * 8
    block[156:157] = kind
    block[157:257] = target[:100].ljust(100, b"\0")
    block[257:265] = b"ustar\00000"
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


class TarReader:
    """Takes a tar stream in pieces of any size, and holds one head at most."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._content = 0
        self._padding = 0
        self._pax: dict[bytes, bytes] = {}
        self.ended = False

    def feed(self, received: bytes) -> list[tuple[Entry | None, bytes]]:
        """The entries that begin, as `(entry, b"")`, and pieces of the content of the last one, as `(None, piece)`.

        Raises:
            Malformed: This is not such a stream.
        """
        buffer = self._buffer
        buffer += received
        found: list[tuple[Entry | None, bytes]] = []
        at = 0
        while not self.ended:
            if self._content:
                piece = bytes(buffer[at : at + self._content])
                if not piece:
                    break
                at += len(piece)
                self._content -= len(piece)
                found.append((None, piece))
            elif self._padding:
                skipped = min(self._padding, len(buffer) - at)
                if not skipped:
                    break
                at += skipped
                self._padding -= skipped
            else:
                taken = self._head(buffer, at, found)
                if not taken:
                    break
                at += taken
        if self.ended:
            at = len(buffer)
        del buffer[:at]
        return found

    def _head(self, buffer: bytearray, at: int, found: list[tuple[Entry | None, bytes]]) -> int:
        """Read one head; how many bytes it took, 0 where more are needed."""
        if len(buffer) - at < BLOCK:
            return 0
        block = bytes(buffer[at : at + BLOCK])
        if not any(block):
            self.ended = True
            return BLOCK
        if _octal(block[148:156]) != sum(block) - sum(block[148:156]) + 8 * 32:
            raise Malformed("a tar head has a wrong checksum")
        kind, size = block[156:157], _octal(block[124:136])
        if kind == _PAX:
            stop = BLOCK + size + (-size % BLOCK)
            if size > _MAX_PAX - BLOCK:
                raise Malformed(f"a pax head of {size} bytes")
            if len(buffer) - at < stop:
                return 0
            self._pax = _records(bytes(buffer[at + BLOCK : at + BLOCK + size]))
            return stop
        pax, self._pax = self._pax, {}
        if b"size" in pax:
            size = _decimal(pax[b"size"])
        path = pax.get(b"path", _text(block[0:100]))
        if block[257:262] == b"ustar" and b"path" not in pax and any(block[345:500]):
            path = _text(block[345:500]) + b"/" + path
        entry = Entry(
            path.rstrip(b"/"),
            FILE if kind == b"\0" else kind,
            mode=_octal(block[100:108]) & 0o7777,
            size=size,
            target=pax.get(b"linkpath", _text(block[157:257])),
            mtime=_octal(block[136:148]),
        )
        self._content = size
        self._padding = -size % BLOCK
        found.append((entry, b""))
        return BLOCK


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _octal(field: bytes) -> int:
    digits = field.strip(b" \0")
    if not digits:
        return 0
    if not all(48 <= digit < 56 for digit in digits):
        raise Malformed("a tar head has a number that is not octal")
    return int(digits, 8)


def _decimal(field: bytes) -> int:
    if not field.isdigit() or len(field) > 18:
        raise Malformed("a pax record has a size that is not a number")
    return int(field)


def _records(raw: bytes) -> dict[bytes, bytes]:
    records: dict[bytes, Any] = {}
    at = 0
    while at < len(raw):
        digits, space, _ = raw[at : at + 8].partition(b" ")
        if not space or not digits.isdigit() or not at + int(digits) <= len(raw) or int(digits) < len(digits) + 4:
            raise Malformed("a pax record has a wrong length")
        record = raw[at + len(digits) + 1 : at + int(digits)]
        key, equals, value = record.partition(b"=")
        if not equals or not value.endswith(b"\n"):
            raise Malformed("a pax record is not key=value")
        records[key] = value[:-1]
        at += int(digits)
    return records
