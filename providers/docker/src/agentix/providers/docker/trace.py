"""BuildKit's progress as lines of a log.

Messages `moby.buildkit.trace` carry a StatusResponse of BuildKit's control API (moby/buildkit, api/services/control,
control.proto) in base64; of that protocol buffer a few fields are read.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

_VERTEXES, _LOGS = 1, 3
_VERTEX, _NAME, _CACHED, _STARTED, _COMPLETED, _ERROR = 1, 3, 4, 5, 6, 7
_LOG_VERTEX, _LOG_MESSAGE = 1, 4
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Value = int | bytes


class Trace:
    """Turns the messages of one build into lines."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._done: set[bytes] = set()
        self._rests: dict[bytes, bytes] = {}

    def read(self, aux: object) -> Iterator[str]:
        """The lines of a message; one that is damaged has none."""
        try:
            data = base64.b64decode(aux, validate=True) if isinstance(aux, str) else b""
            for number, value in fields(data):
                if isinstance(value, int):
                    continue
                if number == _VERTEXES:
                    yield from self._vertex(dict(fields(value)))
                elif number == _LOGS:
                    yield from self._log(dict(fields(value)))
        except (ValueError, binascii.Error):
            return

    def _vertex(self, vertex: dict[int, Value]) -> Iterator[str]:
        key, name = _bytes(vertex, _VERTEX), _bytes(vertex, _NAME).decode("utf-8", "replace")
        if _STARTED not in vertex:
            return
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers) + 1
            yield f"#{self._numbers[key]} {name}\n"
        if _COMPLETED not in vertex or key in self._done:
            return
        self._done.add(key)
        number = self._numbers[key]
        if rest := self._rests.pop(key, b""):
            yield f"#{number} {rest.decode('utf-8', 'replace')}\n"
        if _ERROR in vertex:
            yield f"#{number} ERROR: {_bytes(vertex, _ERROR).decode('utf-8', 'replace')}\n"
        elif vertex.get(_CACHED):
            yield f"#{number} CACHED\n"
        else:
            took = _seconds(_bytes(vertex, _COMPLETED)) - _seconds(_bytes(vertex, _STARTED))
            yield f"#{number} DONE {took:.1f}s\n"

    def _log(self, log: dict[int, Value]) -> Iterator[str]:
        key = _bytes(log, _LOG_VERTEX)
        *lines, rest = (self._rests.get(key, b"") + _bytes(log, _LOG_MESSAGE)).split(b"\n")
        self._rests[key] = rest
        for line in lines:
            yield f"#{self._numbers.get(key, 0)} {line.decode('utf-8', 'replace')}\n"


def fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Numbers and values of a protocol buffer (protobuf.dev, "Encoding").

    Raises:
        ValueError: It is torn or none.
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if at + size > len(data):
            raise ValueError("torn")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("torn")


def _bytes(message: dict[int, Value], number: int) -> bytes:
    value = message.get(number, b"")
    return value if isinstance(value, bytes) else b""


def _seconds(timestamp: bytes) -> float:
    found = dict(fields(timestamp))
    whole, nanos = found.get(1, 0), found.get(2, 0)
    return float(whole) + float(nanos) / 1e9 if isinstance(whole, int) and isinstance(nanos, int) else 0.0
