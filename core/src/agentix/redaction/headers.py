"""Header fields that hold secrets: as HTTP has them, as arguments of curl, in JSON, and as Python shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentix.redaction.known import Span

LONGEST = 8192
"""Bytes of the longest value that is taken out as one."""

AUTH, COOKIE, KEY = "auth_header", "cookie", "api_key"

_ANCHORS = (
    (b"authorization", AUTH),
    (b"cookie", COOKIE),
    (b"api-key", KEY),
    (b"api_key", KEY),
    (b"apikey", KEY),
)
_NAMES = {
    AUTH: re.compile(rb"(?:[a-z0-9]+[-_])*authorization"),
    COOKIE: re.compile(rb"(?:http_)?(?:set[-_])?cookie"),
    KEY: re.compile(rb"(?:[a-z0-9]+[-_])*api[-_]?key"),
}
_BEFORE = re.compile(rb"[A-Za-z0-9_-]{0,48}\Z")
_ESCAPED = re.compile(rb"[nrtbf]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}")
_OPENING = re.compile(rb"(?P<pair>[(\[][ \t\r\n]*[bru]?)?(?P<slashes>\\*)(?P<quote>[\"'])\Z")
_COLON = re.compile(rb"[ \t]*(?P<sign>[:=])[ \t]*")
_GIVES = re.compile(
    rb"(?:\][ \t]*)?[ \t]*(?P<sign>:|=>?|,)(?:[ \t\r\n]|\\+[rn])*"
    rb"(?P<list>\[[ \t\r\n]*)?[bfru]?(?P<slashes>\\*)(?P<quote>[\"'])"
)
_NEXT = re.compile(rb"[ \t]*,[ \t\r\n]*(?P<slashes>\\*)(?P<quote>[\"'])")
_CLOSED = re.compile(rb"[ \t\r\n]*[)\]]")

_SCHEMES = (
    rb"(?:bearer|basic|token|bot|api-?key|key|jwt|oauth|negotiate|ntlm|digest|hawk|mac|sharedkey(?:lite)?"
    rb"|aws4?[-a-z0-9]{0,40}|signature|googlelogin|splunk|geniekey|ssws)"
)
_SCHEME = re.compile(rb"(?i:(?P<sure>bearer|basic)|" + _SCHEMES + rb")[ \t]+(?=\S)")
_TOKEN = rb"(?:[^\s\"'\\,;<>|(){}\[\]`]|\\+/)"
_SINGLE = re.compile(_TOKEN + rb"{3,8192}")
# After a quote that ends a text, JSON has a sign or white space: no quoted value begins with one of these.
_QUOTED = rb"\\*\"(?![\s:,\]}])[^\"\\\r\n]{0,1024}\\*\""
_FIELDS = re.compile(
    rb"(?:[a-zA-Z0-9_-]{1,64}=(?:" + _QUOTED + rb"|[^\s\"'\\,]{0,1024})(?:,[ \t]*|(?=[\s\"'\\])|\Z)){2,16}"
)
_PAIR = rb"[^\s\"'\\=;,<>(){}]{1,256}=(?:" + _QUOTED + rb"|(?:[^\s\"'\\;]|\\+/){0,4096})"
_COOKIES = re.compile(_PAIR + rb"(?:;[ \t]*(?:" + _PAIR + rb"|[A-Za-z-]{1,32})){0,64}")
_LIKELY = re.compile(rb"(?=[^0-9]*[0-9])\S{8,}|\S{20,}")
_MIXED = re.compile(rb"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])\S{16,}")
_BLANK = re.compile(
    rb"\$\{?\w+\}?|\$\([^()]*\)|<[^<>]*>|\{\{?[^{}]*\}?\}|%\(?\w*\)?s|[a-z_-]{0,12}[*.]+|" + _SCHEMES + rb"\s*", re.I
)
"""What stands where a secret would: a variable, a template, the mask."""


def header_spans(data: bytes) -> list[Span]:
    """Values of `Authorization`, of cookies and of API keys; the names and schemes stay."""
    lowered = data.lower()
    found: list[Span] = []
    for anchor, kind in _ANCHORS:
        place = lowered.find(anchor)
        while place >= 0:
            end = place + len(anchor)
            if (start := _name(data, lowered, place, end, kind)) is not None:
                found += _given(data, start, end, kind, sure=anchor == b"api-key")
            place = lowered.find(anchor, end)
    return found


def _name(data: bytes, lowered: bytes, place: int, end: int, kind: str) -> int | None:
    """Where the field's name begins, of which the end was found; `None` where that is another word."""
    before = _BEFORE.search(data, max(0, place - 48), place)
    start = place if before is None else before.start()
    # The n of an escaped line break is none of the name.
    if start and data[start - 1] == 0x5C and (escape := _ESCAPED.match(data, start, end)) is not None:
        start = escape.end()
    return start if _NAMES[kind].fullmatch(lowered, start, end) else None


def _given(data: bytes, start: int, end: int, kind: str, *, sure: bool) -> Iterator[Span]:
    opening = _OPENING.search(data, max(0, start - 16), start)
    if opening is not None:
        quote = opening["slashes"] + opening["quote"]
        if data.startswith(quote, end):
            yield from _in_quotes(data, end + len(quote), kind, pair=opening["pair"] is not None)
            return
    colon = _COLON.match(data, end)
    if colon is not None:
        span = _bare(data, colon.end(), kind, sure=sure and colon["sign"] == b":")
        if span is not None:
            yield span


def _in_quotes(data: bytes, place: int, kind: str, *, pair: bool) -> Iterator[Span]:
    """The value of a name in quotes: a text in quotes, or a list of such."""
    gives = _GIVES.match(data, place)
    if gives is None or (gives["sign"] == b"," and not pair):
        return
    listed = gives["list"] is not None
    value: re.Match[bytes] | None = gives
    while value is not None:
        end = _closing(data, value.end(), value["slashes"], value["quote"])
        if end is None:
            return
        after = end + len(value["slashes"] + value["quote"])
        if gives["sign"] == b"," and not _CLOSED.match(data, after):
            return
        if span := _whole(data, value.end(), end, kind):
            yield span
        value = _NEXT.match(data, after) if listed else None


def _closing(data: bytes, start: int, slashes: bytes, quote: bytes) -> int | None:
    place = data.find(quote, start, start + LONGEST)
    while place >= 0:
        before = place
        while before > start and data[before - 1] == 0x5C:
            before -= 1
        # Without backslashes of its own, a quote closes after an even number of them: those are escaped themselves.
        if place - before == len(slashes) or (not slashes and (place - before) % 2 == 0):
            return place - len(slashes)
        place = data.find(quote, place + 1, start + LONGEST)
    return None


def _whole(data: bytes, start: int, end: int, kind: str) -> Span | None:
    scheme = _SCHEME.match(data, start, end) if kind == AUTH else None
    start = start if scheme is None else scheme.end()
    value = data[start:end]
    likely = _LIKELY.match(value) or scheme is not None or (kind == COOKIE and b"=" in value)
    return (start, end, kind) if len(value) >= 3 and likely and not _BLANK.fullmatch(value) else None


def _bare(data: bytes, start: int, kind: str, *, sure: bool) -> Span | None:
    if kind == COOKIE:
        value = _COOKIES.match(data, start)
        like = None
    elif kind == KEY:
        value = _SINGLE.match(data, start)
        like = _LIKELY if sure else _MIXED
    else:
        scheme = _SCHEME.match(data, start)
        start = start if scheme is None else scheme.end()
        value = _FIELDS.match(data, start) or _SINGLE.match(data, start)
        like = None if scheme is not None and scheme["sure"] else _LIKELY
    if value is None or _BLANK.fullmatch(value[0]) or (like is not None and not like.match(value[0])):
        return None
    return start, value.end(), kind
