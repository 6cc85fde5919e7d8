"""The wire between host and runtime: frames, and the values that their heads carry.

A frame is its payload's length (4 bytes, big endian), its kind (1 byte), the call it belongs to (4 bytes) and the
payload. Bulk data travels in DATA frames of at most `CHUNK` bytes; a sender may have `WINDOW` bytes of one call
under way until CREDIT allows more, so that no transfer fills memory or starves another call.

Both sides use this module, and neither trusts the other to keep to it: whatever is malformed raises `Malformed`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PROTOCOL = 1

CHUNK = 1 << 16
WINDOW = 1 << 20
MAX_DATA = 1 << 18
MAX_VALUE = 1 << 23
MAX_DEPTH = 16

HELLO, CALL, DATA, END, CREDIT, CANCEL, PING, PONG, RESULT, ERROR, ACK = range(1, 12)

PLAIN, STDOUT, STDERR = 0, 1, 2
"""Channels: the first byte of a DATA payload."""

_LIMITS = {
    HELLO: MAX_VALUE,
    CALL: MAX_VALUE,
    DATA: MAX_DATA,
    END: 0,
    CREDIT: 4,
    CANCEL: 0,
    PING: 8,
    PONG: 8,
    RESULT: MAX_VALUE,
    ERROR: MAX_VALUE,
    ACK: 8,
}
FROM_HOST = frozenset({HELLO, CALL, DATA, END, CREDIT, CANCEL, PING, ACK})
FROM_RUNTIME = frozenset({HELLO, DATA, CREDIT, PONG, RESULT, ERROR, ACK})

HEAD_BYTES = 9


class Malformed(ValueError):
    """The peer sent something that is not the protocol."""


def frame(kind: int, call: int, payload: bytes = b"") -> bytes:
    """One frame, ready to be sent."""
    return head(kind, call, len(payload)) + payload


def data(call: int, channel: int, payload: bytes | memoryview) -> bytes:
    """One DATA frame."""
    return head(DATA, call, len(payload) + 1) + bytes((channel,)) + payload


def credit(call: int, amount: int) -> bytes:
    """A CREDIT frame that allows `amount` more bytes of a call."""
    return head(CREDIT, call, 4) + amount.to_bytes(4, "big")


def ack(count: int) -> bytes:
    """An ACK frame: the first `count` bytes of the stream have come."""
    return head(ACK, 0, 8) + count.to_bytes(8, "big")


def head(kind: int, call: int, length: int) -> bytes:
    """What comes before a payload of `length` bytes."""
    # The module `struct` would take the runtime longer to load than all its frames take.
    return length.to_bytes(4, "big") + bytes((kind,)) + call.to_bytes(4, "big")


class FrameReader:
    """Cuts a byte stream into frames, and holds at most one incomplete frame.

    Args:
        accepted: The kinds that the peer may send.
        max_value: The longest head value to accept, in bytes.
    """

    def __init__(self, accepted: frozenset[int], *, max_value: int = MAX_VALUE) -> None:
        self._limits = {kind: min(_LIMITS[kind], max_value) for kind in accepted}
        self._buffer = bytearray()
        self._needed = HEAD_BYTES

    def feed(self, received: bytes) -> list[tuple[int, int, bytes]]:
        """The frames that are complete now, as kind, call and payload.

        Raises:
            Malformed: A kind that is not accepted, or a payload longer than its kind allows.
        """
        buffer = self._buffer
        buffer += received
        if len(buffer) < self._needed:
            return []
        frames = []
        start, end = 0, len(buffer)
        view = memoryview(buffer)
        try:
            while end - start >= HEAD_BYTES:
                length = int.from_bytes(view[start : start + 4], "big")
                kind = view[start + 4]
                limit = self._limits.get(kind)
                if limit is None:
                    raise Malformed(f"a frame of kind {kind} was not expected")
                if length > limit:
                    raise Malformed(f"a frame of kind {kind} has {length} bytes; at most {limit} are allowed")
                stop = start + HEAD_BYTES + length
                if stop > end:
                    self._needed = stop - start
                    break
                call = int.from_bytes(view[start + 5 : start + HEAD_BYTES], "big")
                frames.append((kind, call, bytes(view[start + HEAD_BYTES : stop])))
                start = stop
            else:
                self._needed = HEAD_BYTES
        finally:
            view.release()
        del buffer[:start]
        return frames


def encode(value: Any) -> bytes:
    """A value as bytes: None, bool, int (64 bits), float, bytes, str, list or tuple, dict with str keys.

    Raises:
        TypeError: Any other type.
        ValueError: An integer over 64 bits, a str that is neither Unicode nor undecodable bytes, or deep nesting.
    """
    out = bytearray()
    _encode(value, out, MAX_DEPTH)
    return bytes(out)


def _encode(value: Any, out: bytearray, depth: int) -> None:
    if depth < 0:
        raise ValueError("the value is nested too deeply")
    if value is None:
        out += b"n"
    elif value is True:
        out += b"t"
    elif value is False:
        out += b"f"
    elif isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise ValueError(f"the integer {value} has more than 64 bits")
        out += b"i" + value.to_bytes(8, "big", signed=True)
    elif isinstance(value, str):
        raw = value.encode("utf-8", "surrogateescape")
        out += b"s" + len(raw).to_bytes(4, "big") + raw
    elif isinstance(value, bytes):
        out += b"b" + len(value).to_bytes(4, "big") + value
    elif isinstance(value, float):
        from _struct import pack

        out += b"d" + pack(">d", value)
    elif isinstance(value, (list, tuple)):
        out += b"l" + len(value).to_bytes(4, "big")
        for item in value:
            _encode(item, out, depth - 1)
    elif isinstance(value, dict):
        out += b"m" + len(value).to_bytes(4, "big")
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"a key is {type(key).__name__}, not str")
            _encode(key, out, 0)
            _encode(item, out, depth - 1)
    else:
        raise TypeError(f"a {type(value).__name__} cannot be sent")


def decode(raw: bytes) -> Any:
    """The value that `encode` made these bytes of.

    Raises:
        Malformed: They are not exactly one such value.
    """
    value, end = _decode(raw, 0, MAX_DEPTH)
    if end != len(raw):
        raise Malformed(f"{len(raw) - end} bytes follow a value")
    return value


def _decode(raw: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth < 0:
        raise Malformed("a value is nested too deeply")
    reader = _READERS.get(raw[at : at + 1])
    if reader is None:
        raise Malformed(f"no value starts with {raw[at : at + 1]!r}")
    return reader(raw, at + 1, depth)


def _fixed(raw: bytes, at: int, size: int) -> int:
    if at + size > len(raw):
        raise Malformed("a value is cut off")
    return at + size


def _length(raw: bytes, at: int) -> tuple[int, int]:
    stop = _fixed(raw, at, 4)
    count = int.from_bytes(raw[at:stop], "big")
    # Every item takes a byte at least, so a forged count cannot make the decoder allocate more than was sent.
    _fixed(raw, stop, count)
    return count, stop


def _read_int(raw: bytes, at: int, depth: int) -> tuple[int, int]:
    stop = _fixed(raw, at, 8)
    return int.from_bytes(raw[at:stop], "big", signed=True), stop


def _read_float(raw: bytes, at: int, depth: int) -> tuple[float, int]:
    stop = _fixed(raw, at, 8)
    from _struct import unpack_from

    return unpack_from(">d", raw, at)[0], stop


def _read_bytes(raw: bytes, at: int, depth: int) -> tuple[bytes, int]:
    count, at = _length(raw, at)
    return raw[at : at + count], at + count


def _read_str(raw: bytes, at: int, depth: int) -> tuple[str, int]:
    count, at = _length(raw, at)
    return raw[at : at + count].decode("utf-8", "surrogateescape"), at + count


def _read_list(raw: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    count, at = _length(raw, at)
    items = []
    for _ in range(count):
        item, at = _decode(raw, at, depth - 1)
        items.append(item)
    return items, at


def _read_map(raw: bytes, at: int, depth: int) -> tuple[dict[str, Any], int]:
    count, at = _length(raw, at)
    items: dict[str, Any] = {}
    for _ in range(count):
        if raw[at : at + 1] != b"s":
            raise Malformed("a key is not a str")
        key, at = _read_str(raw, at + 1, 0)
        if key in items:
            raise Malformed(f"the key {key!r} comes twice")
        items[key], at = _decode(raw, at, depth - 1)
    return items, at


_READERS: dict[bytes, Callable[[bytes, int, int], tuple[Any, int]]] = {
    b"n": lambda raw, at, depth: (None, at),
    b"t": lambda raw, at, depth: (True, at),
    b"f": lambda raw, at, depth: (False, at),
    b"i": _read_int,
    b"d": _read_float,
    b"b": _read_bytes,
    b"s": _read_str,
    b"l": _read_list,
    b"m": _read_map,
}
