"""IP addresses, told from version numbers, times and longer numbers."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from agentix.redaction.edges import AFTER_ESCAPE
from agentix.redaction.known import Span

IP = "ip"

_MIDDLE = re.compile(rb"\.[0-9]{1,3}\.[0-9]")
_FOUR = re.compile(
    rb"(?:(?<![0-9A-Za-z.])|" + AFTER_ESCAPE + rb")[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![0-9A-Za-z])"
    rb"(?!\.(?!in-addr\.arpa|nip\.io|sslip\.io|xip\.io)[0-9A-Za-z])"
    rb"(?!-[0-9]*[A-Za-z]|\+[0-9A-Za-z]|_(?:all|amd64|arm64|armhf|i386|x86_64|aarch64)\b)"
)
_VERSION = re.compile(
    rb"(?:version|\b_?ver|\bv|release|revision|build|firmware|section|chapter|clause|figure|table|\xc2\xa7)s?_*"
    rb"[\"'\\]*[ \t]*(?:[:=]|is|of|to)?[ \t]*[\"'\\(=]*\Z|(?:==|>=|<=|~=|!=)[ \t]*[\"']?\Z|[a-z]-\Z",
    re.I,
)
_PRODUCT = re.compile(rb"(?<![/\w.])[A-Z][A-Za-z]+/\Z")
_DASHED = re.compile(rb"(?<![0-9A-Za-z])ip-(?P<four>[0-9]{1,3}(?:-[0-9]{1,3}){3})(?![0-9A-Za-z])")
_COLONS = re.compile(rb":(?::|[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{1,4}:)")
_SIX = re.compile(rb"[0-9A-Fa-f:]{2,39}(?:(?<=:)[0-9]{1,3}(?:\.[0-9]{1,3}){3})?")
_LEFT = re.compile(rb"[0-9A-Fa-f:]{0,39}\Z")

_ALLOCATED = tuple(
    ipaddress.IPv6Network(network)
    for network in ("2000::/3", "fc00::/7", "fe80::/10", "ff00::/8", "64:ff9b::/96", "::ffff:0:0/96")
)
"""What lies outside of these is no address that any machine has: `1::2` in a program, `dead::beef`."""


def address_spans(data: bytes) -> list[Span]:
    """Addresses of machines.

    Those of this machine itself (`127.0.0.1`, `::1`, `0.0.0.0`, `::`) and masks of networks (`255.255.255.0`) tell
    nothing and stay. A number after `version` and the like, after `==` or a product's name and `/`, or that goes on
    (`1.2.3.4-beta`, `1.2.3.4.5`) is a version.
    """
    return [*_fours(data), *_dashed(data), *_sixes(data)]


def _fours(data: bytes) -> Iterator[Span]:
    done = 0
    for middle in _MIDDLE.finditer(data):
        start = middle.start()
        while start > done and middle.start() - start < 3 and 0x30 <= data[start - 1] <= 0x39:
            start -= 1
        match = _FOUR.match(data, start) if start < middle.start() else None
        if match is not None and _leaks(match[0]) and not _is_version(data, start):
            done = match.end()
            yield start, done, IP


def _is_version(data: bytes, start: int) -> bool:
    begin = max(0, start - 32)
    return _VERSION.search(data, begin, start) is not None or _PRODUCT.search(data, begin, start) is not None


def _dashed(data: bytes) -> Iterator[Span]:
    if b"ip-" in data:
        for match in _DASHED.finditer(data):
            if _leaks(match["four"].replace(b"-", b".")):
                yield match.start("four"), match.end("four"), IP


def _sixes(data: bytes) -> Iterator[Span]:
    done = 0
    for colons in _COLONS.finditer(data):
        if colons.start() < done:
            continue
        left = _LEFT.search(data, max(done, colons.start() - 39), colons.start())
        start = colons.start() if left is None else left.start()
        match = _SIX.match(data, start)
        if match is None:
            continue
        done = match.end()
        text = match[0]
        # A sentence or a field may end with a colon.
        if text.endswith(b":") and not text.endswith(b"::"):
            text = text[:-1]
        if _apart(data, start, start + len(text)) and _leaks(text):
            yield start, start + len(text), IP


def _apart(data: bytes, start: int, end: int) -> bool:
    before, after = data[max(0, start - 1) : start], data[end : end + 1]
    escaped = start >= 2 and data[start - 2 : start] in (b"\\n", b"\\r", b"\\t")
    return (escaped or not re.match(rb"[0-9A-Za-z_.:]", before)) and not re.match(rb"[0-9A-Za-z_]", after)


def _leaks(text: bytes) -> bool:
    try:
        address = ipaddress.ip_address(text.decode())
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return not text.startswith((b"255.", b"0."))
    if address.ipv4_mapped is not None and not _leaks(str(address.ipv4_mapped).encode()):
        return False
    return any(address in network for network in _ALLOCATED)
