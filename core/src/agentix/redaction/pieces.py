"""Files as pieces of UTF-8, whatever encoding their byte order mark tells."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator
from typing import IO

from agentix.redaction.sorts import encoding_of

BLOCK = 1 << 20
"""Bytes that are read, and looked through, at a time."""


Check = Callable[[], None]
"""Called often by what takes long; what it raises ends the work."""


def unchecked() -> None:
    """Let the work go on."""


class NotText(Exception):
    """It is no text after all."""


def pieces(file: IO[bytes], check: Check = unchecked) -> Iterator[bytes]:
    """What a file holds from here on."""
    while data := file.read(BLOCK):
        check()
        yield data


def as_utf8(head: bytes, given: Iterable[bytes]) -> Iterator[bytes]:
    """Text in UTF-8; bytes that are none stay as they are.

    Args:
        head: How the text begins.
        given: The text, from its beginning.

    Raises:
        NotText: It is not in the encoding that its mark tells, or has a zero byte.
    """
    encoding, _ = encoding_of(head)
    if encoding == "utf-8":
        for piece in given:
            if b"\0" in piece:
                raise NotText
            yield piece
        return
    decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")
    try:
        for piece in given:
            yield decoder.decode(piece).encode("utf-8", "surrogatepass")
        decoder.decode(b"", final=True)
    except UnicodeError as error:
        raise NotText from error


def as_before(head: bytes, given: Iterable[bytes]) -> Iterator[bytes]:
    """The way back, to the encoding of how the text began."""
    encoding, _ = encoding_of(head)
    if encoding == "utf-8":
        yield from given
        return
    decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass")
    for piece in given:
        yield decoder.decode(piece).encode(encoding, "surrogatepass")
