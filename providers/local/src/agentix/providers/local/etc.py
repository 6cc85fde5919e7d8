"""The little of the host's /etc that its tools need, without anything that is secret or personal."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentix.api import HostError, cache_dir

SHOWN = (
    *("alternatives", "bash.bashrc", "bash_completion.d", "ca-certificates", "ca-certificates.conf", "debian_version"),
    *("fonts", "gai.conf", "host.conf", "inputrc", "java", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias"),
    *("localtime", "login.defs", "lsb-release", "magic", "magic.mime", "maven", "mime.types", "os-release", "perl"),
    *("pki", "profile", "profile.d", "protocols", "python3", "rpc", "services", "shells", "ssl", "terminfo"),
    *("timezone", "xdg"),
)
SHOWN_PREFIXES = ("java-", "python3.")
OWN = {
    "hostname": "sandbox\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
}
"""Files that are the same in every sandbox."""
PLACE = "/agentix/etc"
"""Where the copies are mounted; /etc itself is writable and has links to them."""

_SYSTEM_UIDS = range(1000)
_NOBODY = 65_534


@dataclass(frozen=True, kw_only=True)
class User:
    """A line of /etc/passwd."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, kw_only=True)
class Etc:
    """What a sandbox finds in /etc."""

    folder: Path
    """Copies of the host's files, to be mounted read-only."""
    names: tuple[str, ...]
    passwd: str
    group: str
    users: tuple[User, ...]
    groups: tuple[tuple[str, int], ...]

    def uid(self, name: str) -> int | None:
        """The uid of a user by name or number; `None` where there is no such name."""
        if name.isdecimal():
            return int(name)
        return next((user.uid for user in self.users if user.name == name), None)

    def gid(self, name: str) -> int | None:
        """The gid of a group by name or number; `None` where there is no such name."""
        return int(name) if name.isdecimal() else dict(self.groups).get(name)

    def primary_gid(self, name: str) -> int:
        """The gid that goes with a user; for a uid without a name, 0, as in a Dockerfile."""
        uid = self.uid(name)
        return next((user.gid for user in self.users if user.name == name or user.uid == uid), 0)


def prepare_etc(host: Path = Path("/etc")) -> Etc:
    """Copy what is shown into the cache, once for each state of the host's files.

    Raises:
        HostError: The cache cannot be written.
    """
    files = [path for name in _shown_names(host) for path in _readable(host / name)]
    passwd, users = _system_users(host / "passwd")
    group, groups = _system_groups(host / "group")
    digest = hashlib.sha256(repr(OWN).encode("ascii"))
    for path in files:
        status = path.lstat()
        digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}".encode("utf-8", "surrogateescape"))
    top = cache_dir() / "local" / f"etc-{digest.hexdigest()[:32]}"
    try:
        if not top.is_dir():
            _copy(files, host=host, top=top)
        names = tuple(sorted(entry.name for entry in top.iterdir()))
    except OSError as error:
        raise HostError(
            f"the files for /etc cannot be written to {top}: {error.strerror}",
            hint="set AGENTIX_CACHE_DIR to a writable directory that other users can read",
        ) from error
    return Etc(folder=top, names=names, passwd=passwd, group=group, users=users, groups=groups)


def _shown_names(host: Path) -> list[str]:
    return sorted(
        entry.name for entry in host.iterdir() if entry.name in SHOWN or entry.name.startswith(SHOWN_PREFIXES)
    )


def _readable(path: Path) -> Iterator[Path]:
    """Files and links below a path that every user may read anyway."""
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_mode & stat.S_IROTH):
            yield path
        elif stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_IXOTH and status.st_mode & stat.S_IROTH:
            for entry in sorted(path.iterdir()):
                yield from _readable(entry)
    except OSError:
        return


def _copy(files: list[Path], *, host: Path, top: Path) -> None:
    top.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=top.parent))
    try:
        for path in files:
            target = fresh / path.relative_to(host)
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.is_symlink():
                target.symlink_to(_link_target(path, host=host))
            else:
                shutil.copyfile(path, target)
                target.chmod(0o644)
        for name, text in OWN.items():
            (fresh / name).write_text(text, encoding="ascii")
            (fresh / name).chmod(0o644)
        for folder, _, _ in os.walk(fresh):
            Path(folder).chmod(0o755)
        fresh.rename(top)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        # Another process may have been faster.
        if not top.is_dir():
            raise


def _link_target(path: Path, *, host: Path) -> str:
    """Where a link has to point to from its new place: out of /etc only by an absolute path."""
    there = os.path.normpath(path.parent / path.readlink())
    return there if not Path(there).is_relative_to(host) else os.path.relpath(there, path.parent)


def _system_users(path: Path) -> tuple[str, tuple[User, ...]]:
    """People's accounts are left out: their names are no business of a sandbox."""
    lines, users = [], []
    for fields in _fields(path, count=7):
        uid, gid = int(fields[2]), int(fields[3])
        if uid in _SYSTEM_UIDS or uid == _NOBODY:
            home = "/root" if uid == 0 else "/nonexistent"
            lines.append(":".join((fields[0], "x", fields[2], fields[3], "", home, fields[6])))
            users.append(User(name=fields[0], uid=uid, gid=gid))
    if not any(user.uid == 0 for user in users):
        lines.insert(0, "root:x:0:0::/root:/bin/sh")
        users.insert(0, User(name="root", uid=0, gid=0))
    return "\n".join(lines) + "\n", tuple(users)


def _system_groups(path: Path) -> tuple[str, tuple[tuple[str, int], ...]]:
    lines, groups = [], []
    for fields in _fields(path, count=4):
        gid = int(fields[2])
        if gid in _SYSTEM_UIDS or gid == _NOBODY:
            lines.append(f"{fields[0]}:x:{gid}:")
            groups.append((fields[0], gid))
    if not any(gid == 0 for _, gid in groups):
        lines.insert(0, "root:x:0:")
        groups.insert(0, ("root", 0))
    return "\n".join(lines) + "\n", tuple(groups)


def _fields(path: Path, *, count: int) -> Iterator[list[str]]:
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) == count and fields[2].isdecimal() and (count < 7 or fields[3].isdecimal()):
            yield fields
