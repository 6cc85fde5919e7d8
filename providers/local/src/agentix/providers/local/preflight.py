"""Says in one line why no sandbox can be made on this machine, and what to do about it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from agentix.api import HostError

_NAMESPACES = (
    "allow user namespaces: `sysctl -w user.max_user_namespaces=15000`; on Debian also "
    "`kernel.unprivileged_userns_clone=1`; on Ubuntu 24.04 and later an AppArmor profile for bwrap, or "
    "`kernel.apparmor_restrict_unprivileged_userns=0`; in a container, start it with "
    "`--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined`; "
    "or use another provider"
)

_SIGNS = (
    ("Creating new namespace failed", "user namespaces are not allowed here", _NAMESPACES),
    ("No permissions to create new namespace", "user namespaces are not allowed here", _NAMESPACES),
    ("No permissions to creating new namespace", "user namespaces are not allowed here", _NAMESPACES),
    ("setting up uid map", "user namespaces are not allowed here", _NAMESPACES),
    ("loopback:", "a network namespace cannot be set up here", _NAMESPACES),
    ("Can't mount proc", "a /proc of its own cannot be mounted here", _NAMESPACES),
    ("Operation not permitted", "a namespace cannot be set up here", _NAMESPACES),
)


def explain(said: str) -> HostError:
    """The error for what bubblewrap said before it gave up."""
    said = said.strip()
    last = said.splitlines()[-1] if said else "bubblewrap ended without a word"
    for sign, meaning, remedy in _SIGNS:
        if sign in said:
            return HostError(f"no sandbox can be made: {meaning} ({last})", detail="namespaces", hint=remedy)
    return HostError(f"no sandbox can be made: {last}", detail="bubblewrap")


def explain_os_error(error: OSError) -> HostError:
    """The error for a system call that failed while a sandbox was started."""
    hint = None
    if error.errno in (errno.EMFILE, errno.ENFILE):
        hint = "raise the limit of open files (`ulimit -n 4096`), or lower --n-concurrent"
    elif error.errno in (errno.EAGAIN, errno.ENOMEM):
        hint = "this machine is out of processes or memory: lower --n-concurrent"
    elif error.errno == errno.ENOSPC:
        hint = "user.max_user_namespaces or another limit on namespaces is reached: raise it, or lower --n-concurrent"
    where = f": {error.filename}" if error.filename else ""
    return HostError(f"a sandbox cannot be started: {error.strerror or error}{where}", detail="start", hint=hint)


def namespace_settings() -> list[str]:
    """Kernel settings that forbid namespaces, each with its remedy."""
    problems = []
    if _setting("user/max_user_namespaces") == "0":
        problems.append("user.max_user_namespaces is 0: `sysctl -w user.max_user_namespaces=15000`")
    if os.geteuid() != 0 and _setting("kernel/unprivileged_userns_clone") == "0":
        problems.append("kernel.unprivileged_userns_clone is 0: `sysctl -w kernel.unprivileged_userns_clone=1`")
    return problems


def _setting(name: str) -> str | None:
    try:
        return Path("/proc/sys", name).read_text(encoding="ascii").strip()
    except OSError:
        return None
