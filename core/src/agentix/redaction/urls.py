"""Secrets in URLs: signatures and tokens among the parameters, and passwords before the host."""

from __future__ import annotations

import re

from agentix.redaction.known import Span

PARAMETER, CREDENTIALS = "signed_url", "url_credentials"

_NAMES = (
    rb"x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)|awsaccesskeyid|signature|sig"
    rb"|key-pair-id|policy|(?:access|auth|id|refresh|session|private|api|secret)?[-_]?token"
    rb"|client_secret|api[-_]?key|apikey|password|passwd|secret"
)
_PARAMETER = re.compile(
    rb"(?:[?&]|&amp;|\\u0026|%3f|%26|[?&]amp;)(?:" + _NAMES + rb")(?P<sign>=|%3d|\\u003d)"
    rb"(?P<value>[^\s&\"'<>\\#;,`(){}|*$]{4,4096})",
    re.I,
)
_LOGIN = re.compile(
    rb"://(?:(?P<user>[^\s/@:\"'\\<>?#\[\]]{0,256}):(?P<password>[^\s/@\"'\\<>?#]{1,512})"
    rb"|(?P<token>(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,512}))@(?=[A-Za-z0-9\[])"
)
_BLANK = re.compile(rb"\$\{?\w+\}?|\{\w*\}|%s|\*+")


def url_spans(data: bytes) -> list[Span]:
    """What signs a URL, or logs in with it; names and users stay."""
    found: list[Span] = []
    if b"=" in data or b"%3" in data or b"u003d" in data:
        for match in _PARAMETER.finditer(data):
            value, start = match["value"], match.start("value")
            if match["sign"] != b"=":
                # In a URL that is itself a parameter, an escaped & ends the value.
                value = re.split(rb"(?i)%26|\\u0026", value, maxsplit=1)[0]
            if len(value) >= 4:
                found.append((start, start + len(value), PARAMETER))
    place = data.find(b"://")
    while place >= 0:
        login = _LOGIN.match(data, place)
        if login is not None:
            name = "token" if login["token"] else "password"
            if not _BLANK.fullmatch(login[name]):
                found.append((login.start(name), login.end(name), CREDENTIALS))
        place = data.find(b"://", place + 3)
    return found
