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
_VALUE = rb"(?P<value>[^\s&\"'<>\\#;,`(){}|*$]{4,4096})"
# What begins with one certain byte is found many times faster than what begins with one of two.
_PARAMETERS = tuple(re.compile(sign + rb"(?:amp;)?(?i:" + _NAMES + rb")=" + _VALUE) for sign in (rb"\?", rb"&"))
_ESCAPED = re.compile(rb"(?i:(?:\\u0026|%3f|%26)(?:" + _NAMES + rb")(?P<sign>=|%3d|\\u003d))" + _VALUE)
_PERCENT = re.compile(rb"%(?:26|3[Ff])")
_LOGIN = re.compile(
    rb"://(?:(?P<user>[^\s/@:\"'\\<>?#\[\]]{0,256}):(?P<password>[^\s/@\"'\\<>?#]{1,512})"
    rb"|(?P<token>(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,512}))@(?=[A-Za-z0-9\[])"
)
_BLANK = re.compile(rb"\$\{?\w+\}?|\{\w*\}|%s|\*+")


def url_spans(data: bytes) -> list[Span]:
    """What signs a URL, or logs in with it; names and users stay."""
    found = [
        (match.start("value"), match.end("value"), PARAMETER)
        for pattern in _PARAMETERS
        for match in pattern.finditer(data)
    ]
    if (b"\\" in data and b"\\u0026" in data) or (b"%" in data and _PERCENT.search(data)):
        for match in _ESCAPED.finditer(data):
            # In a URL that is itself a parameter, an escaped & ends the value.
            value = re.split(rb"(?i)%26", match["value"], maxsplit=1)[0] if match["sign"] != b"=" else match["value"]
            if len(value) >= 4:
                found.append((match.start("value"), match.start("value") + len(value), PARAMETER))
    place = data.find(b"://")
    while place >= 0:
        login = _LOGIN.match(data, place)
        if login is not None:
            name = "token" if login["token"] else "password"
            if not _BLANK.fullmatch(login[name]):
                found.append((login.start(name), login.end(name), CREDENTIALS))
        place = data.find(b"://", place + 3)
    return found
