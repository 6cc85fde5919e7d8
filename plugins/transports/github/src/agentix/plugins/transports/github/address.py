"""Addresses of repositories, which may hold no secrets."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

PROTOCOLS = ("https", "http", "ssh", "git", "file")
"""Those that only move data: git also knows addresses that name a command to be run."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*::?//|[A-Za-z][A-Za-z0-9+.-]*::")
_SCP = re.compile(r"[^/\s]+:(?!//)\S+")
_TOKEN = re.compile(r"gh[pousr]_|github_pat_|glpat-|x-access-token|x-oauth-basic|oauth2")


def is_address(repo: str) -> bool:
    """Whether it is an address and no path: `https://…`, `ssh://…` or `git@host:path`."""
    return _URL.match(repo) is not None or _SCP.fullmatch(repo) is not None


def refuse_address(address: str, *, user: bool) -> str | None:
    """Why it is not pushed to; `None` where it may be.

    Args:
        address: As git has it.
        user: Whether it may name a user for https, as some servers have it in the addresses of checkouts.
    """
    if _URL.match(address) is None:
        return None
    parts = urlsplit(address)
    if parts.scheme.lower() not in PROTOCOLS or "::" in address[: len(parts.scheme) + 2]:
        return f"an address of this kind is not pushed to; there are {', '.join(PROTOCOLS)} and user@host:path"
    named = parts.username or ""
    if parts.password is not None or _TOKEN.match(named) or (named and not user and parts.scheme.startswith("http")):
        return (
            "the address has a login in it, where everybody can see it: take it out, and have git find it by a "
            "credential helper (such as `gh auth setup-git`), by GH_TOKEN, or by an ssh key"
        )
    return None


def browsable(address: str, branch: str, dest: str) -> str:
    """The address of what was pushed, for people."""
    found = re.fullmatch(r"(?:https://|ssh://git@|git@)github\.com[:/](.+?)(?:\.git)?/?", address)
    if found and not branch.startswith("("):
        return f"https://github.com/{found[1]}/tree/{branch}/{dest}"
    return f"{address} {branch}:{dest}"
