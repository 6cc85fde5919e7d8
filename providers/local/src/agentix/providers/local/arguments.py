"""The command line of bubblewrap for one sandbox."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentix.api import Mount, RuntimeMount
from agentix.providers.local.etc import PLACE, Etc

CAPABILITIES = ("SETUID", "SETGID", "KILL", "CHOWN", "DAC_OVERRIDE", "FOWNER")
"""What switching users, ending processes and handling files need, within the sandbox's own user namespace."""

MARK = "AGENTIX_SANDBOX"
"""A variable of the server, not of its commands, that holds the id."""

_SHARED_MEMORY_BYTES = 64 << 20
_HOST_TOOLS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
SOURCES = "/usr/src"
"""The only place below /usr that a sandbox may have to itself."""
OPEN_DIRS = ("/tmp", "/var/tmp")  # noqa: S108
DIRS = (
    *("/app", "/tests", "/logs", "/solution", "/home", "/mnt", "/media", "/opt", "/run", "/srv", "/var/cache"),
    *("/var/lib", "/var/log", "/var/spool"),
)


@dataclass(frozen=True, kw_only=True)
class Root:
    """The file system that a sandbox sees."""

    etc: Etc
    runtime: RuntimeMount
    storage_bytes: int
    mounts: Sequence[Mount] = ()
    dirs: Sequence[str] = ()
    """Further directories to make."""
    own_sources: bool = False
    """Whether /usr/src is the sandbox's own."""
    shown: Sequence[Path] = ()
    """Further directories of the host to show read-only at their own path."""
    share_network: bool = False


def namespace_arguments(sandbox_id: str, *, share_network: bool, block: int, info: int) -> list[str]:
    """Namespaces of its own for everything, ended with whoever started it, without the host's environment.

    Args:
        sandbox_id: Marks the command line, so that a sandbox can be found that was not fully started.
        share_network: Stay in the host's network namespace.
        block: Read end of the pipe that is written to when the uid maps are set.
        info: Write end of the pipe that bubblewrap reports the first process to.
    """
    return [
        *("--unshare-all", *(("--share-net",) if share_network else ()), "--unshare-user"),
        *("--userns-block-fd", str(block), "--info-fd", str(info)),
        *("--uid", "0", "--gid", "0", "--clearenv", "--as-pid-1", "--die-with-parent", "--new-session"),
        *("--hostname", "sandbox", "--setenv", MARK, sandbox_id),
        *(word for name in CAPABILITIES for word in ("--cap-add", f"CAP_{name}")),
    ]


def root_arguments(root: Root, *, files: Mapping[str, int]) -> list[str]:
    """A writable tmpfs with the host's tools read-only in it.

    Args:
        root: What it holds.
        files: Open files whose content is copied to a place inside.
    """
    words = ["--size", str(root.storage_bytes), "--perms", "0755", "--tmpfs", "/", "--ro-bind", "/usr", "/usr"]
    if root.own_sources and Path(SOURCES).is_dir():
        words += ["--size", str(root.storage_bytes), "--perms", "0755", "--tmpfs", SOURCES]
    words += [
        *_host_tools(),
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--size",
        str(_SHARED_MEMORY_BYTES),
        "--perms",
        "1777",
    ]
    words += ["--tmpfs", "/dev/shm", "--remount-ro", "/dev"]  # noqa: S108
    for folder in OPEN_DIRS:
        words += ["--perms", "1777", "--dir", folder]
    words += ["--perms", "0700", "--dir", "/root"]
    for folder in (*DIRS, *root.dirs):
        words += ["--perms", "0755", "--dir", folder]
    words += ["--perms", "0755", "--dir", "/agentix", "--perms", "0755", "--dir", "/etc"]
    words += ["--ro-bind", str(root.etc.folder), PLACE, "--ro-bind", str(root.runtime.path), "/agentix/runtime"]
    for name in root.etc.names:
        words += ["--symlink", f"{PLACE}/{name}", f"/etc/{name}"]
    words += ["--symlink", "/proc/self/mounts", "/etc/mtab"]
    for place, descriptor in files.items():
        words += ["--perms", "0644", "--file", str(descriptor), place]
    for path in root.shown:
        words += ["--ro-bind", str(path), str(path)]
    for mount in root.mounts:
        words += ["--ro-bind" if mount.read_only else "--bind", str(mount.source), mount.target]
    return [*words, "--chdir", "/", "--"]


def host_tools() -> tuple[str, ...]:
    """Names of the host's directories of tools beside /usr, each a directory or a link into it."""
    return tuple(name for name in _HOST_TOOLS if Path("/", name).is_dir())


@functools.cache
def _host_tools() -> tuple[str, ...]:
    words: list[str] = []
    for name in _HOST_TOOLS:
        path = Path("/", name)
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    return tuple(words)
