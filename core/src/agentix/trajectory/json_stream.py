"""Reads a JSON object whose one long array is not held in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TextIO

CHUNK = 1 << 16

_SPACE = re.compile(r"[ \t\r\n]*")
_LONGEST_TOKEN = 12
_NUMBER_END = frozenset(",]} \t\r\n")


def read_object(source: TextIO, *, array: str) -> Iterator[tuple[str | None, Any]]:
    """The members of an object in the order of the file.

    Args:
        source: Text that holds one JSON object and nothing else.
        array: Key whose value is an array to be read piece by piece.

    Yields:
        `(key, value)` for each member, but `(None, element)` for each element of that array, and
        `(array, None)` before the first one.

    Raises:
        ValueError: It is not such an object; the message holds the character's offset.
    """
    text = _Text(source)
    text.expect("{")
    if text.accept("}"):
        text.end()
        return
    while True:
        key = text.value()
        if not isinstance(key, str):
            raise text.error("a key is not a string")
        text.expect(":")
        if key == array:
            text.expect("[")
            yield key, None
            if not text.accept("]"):
                while True:
                    yield None, text.value()
                    if not text.accept(","):
                        break
                text.expect("]")
        else:
            yield key, text.value()
        if not text.accept(","):
            break
    text.expect("}")
    text.end()


class _Text:
    def __init__(self, source: TextIO) -> None:
        self._source = source
        self._buffer = ""
        self._at = 0
        self._gone = 0
        self._decoder = json.JSONDecoder(parse_constant=_no_constant)

    def error(self, what: str) -> ValueError:
        return ValueError(f"{what} at character {self._gone + self._at}")

    def accept(self, character: str) -> bool:
        if self._peek() != character:
            return False
        self._at += 1
        return True

    def expect(self, character: str) -> None:
        if not self.accept(character):
            raise self.error(f"{character!r} is missing")

    def end(self) -> None:
        if self._peek():
            raise self.error("something follows the end")

    def value(self) -> Any:
        self._peek()
        want = CHUNK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._at)
            except RecursionError:
                raise self.error("the nesting is too deep") from None
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated") or error.pos > len(self._buffer) - _LONGEST_TOKEN
                if not cut or not self._more(want):
                    self._at = error.pos if not cut else self._at
                    raise self.error(error.msg) from None
            else:
                # A number at the very end of the buffer may go on in the next piece.
                closed = self._buffer[end - 1] in '"]}' or self._buffer[end : end + 1] in _NUMBER_END
                if (end < len(self._buffer) and closed) or not self._more(want):
                    self._at = end
                    return value
            want *= 2

    def _peek(self) -> str:
        while True:
            match = _SPACE.match(self._buffer, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if not self._more(CHUNK):
                return ""

    def _more(self, size: int) -> bool:
        piece = self._source.read(size)
        self._gone += self._at
        self._buffer = self._buffer[self._at :] + piece
        self._at = 0
        return bool(piece)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
