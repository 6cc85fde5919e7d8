"""Results of Python calls as bytes: written in the sandbox, read on the host, and never pickled.

What can be written is plain data (None, bool, int, float, str, bytes, list, dict, and tuples, sets, datetimes, paths,
UUIDs and decimals, which any reader can make again) and what lowers to it: enums to their value, dataclasses and
pydantic models to dicts, named tuples to tuples. Reading makes nothing but those types, whatever the bytes say.
"""

from __future__ import annotations

from _struct import Struct

from agentix.runtime.wire import Malformed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_DEPTH = 100
ITEM = 64
"""Bytes that each value counts for besides its own: an empty list has few on the wire and many in memory."""

_LARGE = 1 << 18
_COUNT, _INT, _FLOAT, _DELTA = Struct(">I"), Struct(">q"), Struct(">d"), Struct(">qii")


class CannotLower(TypeError):
    """A value that plain data cannot express.

    Args:
        reason: Why.
        type: Its type.
    """

    def __init__(self, reason: str, type: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.type = type
        self.path = ""

    def inside(self, step: str) -> None:
        """Say where it is, one container further out."""
        self.path = step + self.path


class TooLarge(ValueError):
    """More than was allowed."""


def encode(value: Any, *, limit: int) -> bytearray:
    """Lower a value and write it in one piece; see `parts`."""
    return bytearray().join(parts(value, limit=limit))


def parts(value: Any, *, limit: int) -> list[bytes | bytearray]:
    """Lower a value and write it, without copying what is large.

    Args:
        value: What to write.
        limit: The most bytes, each value inside counting for `ITEM` more.

    Raises:
        CannotLower: It holds something that is not data.
        TooLarge: It is larger.
    """
    writer = _Writer(limit)
    try:
        writer.write(value, MAX_DEPTH)
    except CannotLower as error:
        error.inside("result")
        raise
    except RecursionError:
        raise CannotLower("it holds itself", type(value).__qualname__) from None
    return [*writer.parts, writer.out]


class _Writer:
    def __init__(self, limit: int) -> None:
        self.parts: list[bytes | bytearray] = []
        self.out = bytearray()
        self._before = 0
        self._limit = limit
        self._items = 0

    def write(self, value: Any, depth: int) -> None:
        write = _WRITERS.get(type(value))
        if write is not None:
            write(self, value, depth)
        else:
            from agentix.runtime.lowering import lower

            self.write(lower(value), depth)

    def raw(self, tag: bytes, data: bytes) -> None:
        self._count(len(data))
        self.out += tag + _COUNT.pack(len(data))
        if len(data) < _LARGE:
            self.out += data
            return
        self._before += len(self.out) + len(data)
        self.parts += (self.out, data)
        self.out = bytearray()

    def _count(self, size: int) -> None:
        self._items += 1
        if self._before + len(self.out) + size + self._items * ITEM > self._limit:
            raise TooLarge(f"the result is larger than {self._limit} bytes")

    def fixed(self, encoded: bytes) -> None:
        self._count(len(encoded))
        self.out += encoded

    def integer(self, value: int, depth: int) -> None:
        if -(1 << 63) <= value < 1 << 63:
            self.fixed(b"i" + _INT.pack(value))
        else:
            self.raw(b"I", value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))

    def sequence(self, tag: bytes, values: Any, depth: int) -> None:
        if depth <= 0:
            raise CannotLower(f"it is nested more than {MAX_DEPTH} deep, or holds itself", type(values).__name__)
        self.fixed(tag + _COUNT.pack(len(values)))
        index = 0
        try:
            for item in values:
                self.write(item, depth - 1)
                index += 1
        except CannotLower as error:
            error.inside(f"[{index}]" if tag in (b"l", b"u") else "{…}")
            raise

    def _key(self, key: Any, depth: int) -> None:
        while type(key) not in _WRITERS:
            from agentix.runtime.lowering import lower

            name = type(key).__qualname__
            key = lower(key)
            if isinstance(key, dict):
                raise CannotLower("as plain data it could not be a key", name)
        self.write(key, depth)

    def mapping(self, values: dict[Any, Any], depth: int) -> None:
        if depth <= 0:
            raise CannotLower(f"it is nested more than {MAX_DEPTH} deep, or holds itself", type(values).__name__)
        self.fixed(b"m" + _COUNT.pack(len(values)))
        key: Any = None
        try:
            for key, item in values.items():
                self._key(key, depth - 1)
                self.write(item, depth - 1)
        except CannotLower as error:
            error.inside(f"[{key!r:.100}]")
            raise


_WRITERS: dict[type, Callable[[_Writer, Any, int], None]] = {
    type(None): lambda writer, value, depth: writer.fixed(b"n"),
    bool: lambda writer, value, depth: writer.fixed(b"t" if value else b"f"),
    int: _Writer.integer,
    float: lambda writer, value, depth: writer.fixed(b"d" + _FLOAT.pack(value)),
    str: lambda writer, value, depth: writer.raw(b"s", value.encode("utf-8", "surrogatepass")),
    bytes: lambda writer, value, depth: writer.raw(b"b", value),
    list: lambda writer, value, depth: writer.sequence(b"l", value, depth),
    tuple: lambda writer, value, depth: writer.sequence(b"u", value, depth),
    set: lambda writer, value, depth: writer.sequence(b"S", value, depth),
    frozenset: lambda writer, value, depth: writer.sequence(b"F", value, depth),
    dict: _Writer.mapping,
}


class Text:
    """A type of the standard library that is made again from a text.

    Args:
        tag: Which.
        text: What to make it from.
    """

    __slots__ = ("tag", "text")

    def __init__(self, tag: bytes, text: str) -> None:
        self.tag = tag
        self.text = text


class Delta:
    """A duration.

    Args:
        parts: Days, seconds and microseconds.
    """

    __slots__ = ("parts",)

    def __init__(self, *parts: int) -> None:
        self.parts = parts


_WRITERS[Text] = lambda writer, value, depth: writer.raw(value.tag, value.text.encode("utf-8", "surrogateescape"))
_WRITERS[Delta] = lambda writer, value, depth: writer.fixed(b"E" + _DELTA.pack(*value.parts))


def decode(raw: bytes | bytearray | memoryview, *, limit: int) -> Any:
    """Read what `encode` wrote; the bytes may come from anybody.

    Raises:
        Malformed: They are not exactly one value.
        TooLarge: They are more than `encode` would have written.
    """
    if len(raw) > limit:
        raise TooLarge(f"the result is larger than {limit} bytes")
    reader = _Reader(memoryview(raw), limit // ITEM)
    try:
        value = reader.read(MAX_DEPTH)
    except (ValueError, OverflowError, ArithmeticError, TypeError) as error:
        if isinstance(error, Malformed | TooLarge):
            raise
        # A date that is none, a text that is not UTF-8, a key that cannot be one.
        raise Malformed(f"a value is none of its type: {error}"[:300]) from None
    if reader.at != len(raw):
        raise Malformed(f"{len(raw) - reader.at} bytes follow a value")
    return value


class _Reader:
    def __init__(self, raw: memoryview, items: int) -> None:
        self.raw = raw
        self.at = 0
        self._items = items

    def read(self, depth: int) -> Any:
        at = self.at
        if at >= len(self.raw):
            raise Malformed("a value is cut off")
        read = _READERS.get(self.raw[at])
        if read is None:
            raise Malformed(f"no value starts with {self.raw[at]}")
        self.at = at + 1
        return read(self, depth)

    def take(self, size: int) -> memoryview:
        at = self.at
        if at + size > len(self.raw):
            raise Malformed("a value is cut off")
        self.at = at + size
        return self.raw[at : at + size]

    def unpack(self, layout: Struct) -> Any:
        return layout.unpack(self.take(layout.size))

    def piece(self) -> memoryview:
        return self.take(self.unpack(_COUNT)[0])

    def text(self, errors: str = "surrogateescape") -> str:
        return str(self.piece(), "utf-8", errors)

    def count(self, depth: int, *, each: int = 1) -> int:
        """How many values follow in a container."""
        (count,) = self.unpack(_COUNT)
        if depth <= 0:
            raise Malformed("a value is nested too deeply")
        if self.at + count * each > len(self.raw):
            raise Malformed("a value is cut off")
        self._items -= count * each
        if self._items < 0:
            raise TooLarge("the result holds more values than its limit allows")
        return int(count)

    def items(self, depth: int) -> list[Any]:
        return [self.read(depth - 1) for _ in range(self.count(depth))]

    def hashed(self, kind: type, depth: int) -> Any:
        """A set; a list where the items are of types that are hashed only once they are made again."""
        items = self.items(depth)
        try:
            return kind(items)
        except TypeError:
            return items

    def mapping(self, depth: int) -> dict[Any, Any]:
        found = {}
        for _ in range(self.count(depth, each=2)):
            key = self.read(depth - 1)
            found[key] = self.read(depth - 1)
        return found


def _dates(name: str) -> Callable[[_Reader, int], Any]:
    def read(reader: _Reader, depth: int) -> Any:
        import datetime

        return getattr(datetime, name).fromisoformat(reader.text())

    return read


def _delta(reader: _Reader, depth: int) -> Any:
    from datetime import timedelta

    return timedelta(*reader.unpack(_DELTA))


def _path(reader: _Reader, depth: int) -> Any:
    from pathlib import Path

    return Path(reader.text())


def _uuid(reader: _Reader, depth: int) -> Any:
    from uuid import UUID

    return UUID(reader.text())


def _decimal(reader: _Reader, depth: int) -> Any:
    from decimal import Decimal

    return Decimal(reader.text())


_READERS: dict[int, Callable[[_Reader, int], Any]] = {
    ord("n"): lambda reader, depth: None,
    ord("t"): lambda reader, depth: True,
    ord("f"): lambda reader, depth: False,
    ord("i"): lambda reader, depth: reader.unpack(_INT)[0],
    ord("I"): lambda reader, depth: int.from_bytes(reader.piece(), "big", signed=True),
    ord("d"): lambda reader, depth: reader.unpack(_FLOAT)[0],
    ord("s"): lambda reader, depth: reader.text("surrogatepass"),
    ord("b"): lambda reader, depth: bytes(reader.piece()),
    ord("l"): _Reader.items,
    ord("u"): lambda reader, depth: tuple(reader.items(depth)),
    ord("S"): lambda reader, depth: reader.hashed(set, depth),
    ord("F"): lambda reader, depth: reader.hashed(frozenset, depth),
    ord("m"): _Reader.mapping,
    ord("D"): _dates("datetime"),
    ord("A"): _dates("date"),
    ord("T"): _dates("time"),
    ord("E"): _delta,
    ord("P"): _path,
    ord("U"): _uuid,
    ord("C"): _decimal,
}
