"""The forms that a known value may have where it was written down."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from string import ascii_letters, digits
from urllib.parse import quote, quote_plus

_PLAIN = frozenset((ascii_letters + digits).encode())


def forms_of(value: str) -> Iterator[tuple[bytes, str]]:
    """Every form of a value, each with the name of the form; one may come twice."""
    raws = {_encoded(value), value.encode("utf-8", "surrogatepass")}
    for raw in raws:
        yield raw, "plain"
        yield raw.hex().encode(), "hex"
        yield raw.hex().upper().encode(), "hex"
        for url in _urls(raw):
            yield url, "url"
        for coded in _base64(raw):
            yield coded, "base64"
            yield coded.replace(b"/", b"\\/"), "base64"
    # As PowerShell takes a command.
    for coded in _base64(value.encode("utf-16-le", "surrogatepass")):
        yield coded, "base64"
    for text in _quoted(value):
        yield _encoded(text), "json"
    for text in _marked_up(value):
        yield _encoded(text), "html"
    for text in _between_quotes(value):
        yield _encoded(text), "quoted"
    for order in ("utf-16-le", "utf-16-be"):
        yield value.encode(order, "surrogatepass"), "utf-16"


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _quoted(value: str) -> Iterator[str]:
    yield repr(value)[1:-1]
    for ascii_only in (True, False):
        text = value
        # A string in JSON in JSON: what an agent writes often is in both.
        for _ in range(3):
            text = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
            yield text
    once = json.dumps(value)[1:-1]
    yield once.replace("/", "\\/")
    for plain, escaped in (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e")):
        once = once.replace(plain, escaped)
    yield once
    upper = json.dumps(value)[1:-1]
    yield "\\u".join(
        part if not number else part[:4].upper() + part[4:] for number, part in enumerate(upper.split("\\u"))
    )


def _marked_up(value: str) -> Iterator[str]:
    """As HTML and XML have it, in each usual way."""
    tags = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for double in ('"', "&quot;", "&#34;"):
        for single in ("'", "&#x27;", "&#39;", "&apos;"):
            text = tags.replace('"', double).replace("'", single)
            yield text
            if not text.isascii():
                yield text.encode("ascii", "xmlcharrefreplace").decode()
                yield "".join(char if char.isascii() else f"&#x{ord(char):x};" for char in text)


def _between_quotes(value: str) -> Iterator[str]:
    """As CSV, SQL, YAML and a shell have it, of which the quotes around it are no part."""
    yield value.replace('"', '""')
    yield value.replace("'", "''")
    yield value.replace("'", "'\"'\"'")
    yield value.replace("'", "'\\''")


def _urls(raw: bytes) -> Iterator[bytes]:
    for text in (
        quote(raw, safe=""),
        quote(raw),
        quote(raw, safe="!~*'()"),
        quote_plus(raw),
        quote_plus(raw, safe="*"),
        # Programs without a library for it encode all that is no letter and no digit, or simply everything.
        "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in raw),
        "".join(f"%{byte:02X}" for byte in raw),
    ):
        yield text.encode()
        parts = text.split("%")
        yield "%".join([parts[0], *(part[:2].lower() + part[2:] for part in parts[1:])]).encode()


def _base64(raw: bytes) -> Iterator[bytes]:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            # Characters that hold bits of its neighbours too are left out.
            coded = encode(b"\0" * before + raw).rstrip(b"=")
            yield coded[(0, 2, 3)[before] : None if (before + len(raw)) % 3 == 0 else -1]
