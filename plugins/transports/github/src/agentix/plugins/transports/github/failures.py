"""What git's words mean for whoever ships."""

from __future__ import annotations

import re

from agentix.api import ExecResult, ShipError, ShipRefused, without_logins

RACED = re.compile(
    r"\[rejected\]|non-fast-forward|fetch first|cannot lock ref|failed to update ref|incorrect old value|"
    r"reference already exists"
)
"""Somebody else has pushed at the same time."""
_HINTS = (
    (
        r"could not read (username|password)|authentication failed|invalid username|prompts disabled|error: 401",
        "git has no login for it: set up a credential helper (such as `gh auth setup-git`), GH_TOKEN or an ssh key",
    ),
    (
        r"permission denied \(|publickey",
        "the server takes no key of this machine: look at `ssh -T` to it, and at SSH_AUTH_SOCK",
    ),
    (
        r"host key verification failed",
        "the server's key is not known here: connect once by hand with ssh and compare it",
    ),
    (r"error: 403|permission to .* denied|write access", "the login may not write there"),
    (
        r"repository .*not found|does not appear to be a git repository|error: 404",
        "there is no such repository for this login",
    ),
    (
        r"gh001|large files? detected|file size limit",
        "the server refuses the size of a file: send an archive, or use Git LFS",
    ),
    (r"protected branch|gh006|gh013", "the branch is protected: name another one as `branch`"),
    (r"hook declined|remote rejected", "the server refuses the commit"),
    (
        r"auto-detection is disabled|tell me who you are|empty ident",
        "git does not know who commits: run "
        "`git config --global user.name NAME` and `git config --global user.email ADDRESS`",
    ),
    (r"dubious ownership", "git does not trust the checkout, which belongs to somebody else"),
    (r"invalid path|update-index: unable", "git takes no file of that name: send an archive of it"),
    (r"transport '.*' not allowed", "git may not use an address of this kind"),
)
_ADVICE = re.compile(
    r"hint:|Please make sure you have the correct access|and the repository exists\.|\*\*\* Please tell me|Run$|"
    r"git config --global user\.|to set your account's default|Omit --global|"
    r"fatal: Could not read from remote repository"
)
"""What git says to whoever types its commands; what to do here is told by the hints."""
_LONGEST = 2000


def failure(result: ExecResult, doing: str) -> ShipError:
    """The error for a call that failed.

    Args:
        result: How it ended.
        doing: What it was for, such as `pushing to there`.
    """
    said = words(result)
    whole = f"{result.error_text}\n{said}"
    if result.exit_code == 127:
        return ShipRefused("there is no program git on the PATH: install git")
    if result.timed_out:
        return ShipError(f"git was stopped at the timeout while {doing}: {said or 'it said nothing'}")
    if result.signal is not None:
        return ShipError(f"git was ended by {result.signal} while {doing}: {said or 'it said nothing'}")
    text = f"git, while {doing} (exit status {result.exit_code}): {said}"
    for pattern, hint in _HINTS:
        if re.search(pattern, whole, re.IGNORECASE):
            return ShipRefused(f"{text.rstrip('.: ')}. {hint[0].upper()}{hint[1:]}")
    return ShipError(text)


def words(result: ExecResult) -> str:
    """What git said, without passwords in addresses."""
    lines = [
        line.removeprefix("remote: ").strip() for line in (result.error_text + "\n" + _refusals(result)).splitlines()
    ]
    lines = [line for line in lines if line]
    # Where there is nothing but advice, it is better than nothing.
    said = "; ".join(dict.fromkeys([line for line in lines if not _ADVICE.match(line)] or lines))
    return without_logins(said)[-_LONGEST:]


def _refusals(result: ExecResult) -> str:
    return "\n".join(line for line in result.text.splitlines() if line.startswith("!"))
