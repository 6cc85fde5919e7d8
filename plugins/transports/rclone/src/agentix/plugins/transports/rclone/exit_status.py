"""What rclone's exit status and its words mean for whoever ships."""

from __future__ import annotations

import re

from agentix.api import ExecResult, ShipError, ShipRefused

NOT_FOUND = 3
NOTHING_TO_DO = 9
_MEANINGS = {
    1: "it failed",
    2: "it failed",
    3: "there is no such directory",
    4: "there is no such file",
    5: "the trouble may pass",
    6: "the remote refused, and trying again is of no use",
    7: "the remote refused for good, as it does for a suspended account",
    8: "the limit of what may be sent is reached",
    10: "the limit of time is reached",
}
"""From https://rclone.org/docs/#exit-code; 1 and 2 have changed places between versions."""
_FOR_GOOD = frozenset({3, 4, 6, 7, 8, 10})
_PERMANENT = (
    "didn't find section in config file",
    "didn't find backend called",
    "failed to load config file",
    "unknown flag",
    "invalid argument",
    "accessdenied",
    "invalidaccesskeyid",
    "signaturedoesnotmatch",
    "nosuchbucket",
    "401 unauthorized",
    "403 forbidden",
    "permission denied",
    "unable to authenticate",
    "knownhosts: key",
)
"""Words of failures, in lower case, that come with status 1 and stay until somebody changes something."""
_LINE = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d (?:([A-Z]+) *: )?(.*)")
_NO_NEWS = re.compile(r'Attempt |Use "rclone |Config file .* not found - using defaults')
_LOUD = frozenset({"CRITICAL", "ERROR", "NOTICE"})
_SHOWN = 3
_LONGEST = 2000


def failure(result: ExecResult, doing: str) -> ShipError:
    """The error for a call that failed.

    Args:
        result: How it ended.
        doing: What it was for, such as `sending to there:x`.
    """
    said = "; ".join(words(result)[-_SHOWN:])[-_LONGEST:]
    tail = f": {said}" if said else ""
    if result.exit_code == 127:
        return ShipRefused("there is no program rclone on the PATH: install it, see https://rclone.org/install/")
    if result.timed_out:
        return ShipError(f"rclone was stopped at the timeout while {doing}{tail}")
    if result.signal is not None:
        return ShipError(f"rclone was ended by {result.signal} while {doing}{tail}")
    meaning = _MEANINGS.get(result.exit_code, "it failed")
    text = f"rclone while {doing}: {meaning} (exit status {result.exit_code}){tail}"
    lower = said.lower()
    if "didn't find section in config file" in lower:
        text += ". `rclone listremotes` shows the remotes that there are; `rclone config` makes one"
    if "rclone_config_pass" in lower or "unable to decrypt" in lower or "failed to decrypt" in lower:
        text += ". Give the password of rclone's configuration by RCLONE_CONFIG_PASS or RCLONE_PASSWORD_COMMAND"
        return ShipRefused(text)
    permanent = result.exit_code in _FOR_GOOD or any(word in lower for word in _PERMANENT)
    return ShipRefused(text) if permanent else ShipError(text)


def words(result: ExecResult) -> list[str]:
    """The things that rclone said, without its dates, each once."""
    found: dict[str, None] = {}
    for line in result.error_text.splitlines():
        parts = _LINE.match(line)
        said = (parts[2] if parts[1] is None or parts[1] in _LOUD else "") if parts else line
        said = said.strip()
        if said and not _NO_NEWS.match(said):
            found[said] = None
    return list(found)
