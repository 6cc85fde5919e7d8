"""Users and groups as the sandbox's own /etc/passwd and /etc/group name them; NSS would need the image's libraries."""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_FILE = 1 << 22


class UnknownUser(LookupError):
    """There is no such user or group in the sandbox."""


class User:
    """Who a command runs as.

    Args:
        uid: User id.
        gid: Group id.
        groups: Supplementary groups.
        name: Login name, or the uid in digits.
        home: Home directory.
    """

    __slots__ = ("gid", "groups", "home", "name", "uid")

    def __init__(self, uid: int, gid: int, groups: list[int], name: str, home: str) -> None:
        self.uid = uid
        self.gid = gid
        self.groups = groups
        self.name = name
        self.home = home

    @property
    def is_current(self) -> bool:
        """Whether this process already is that user."""
        return self.uid == posix.geteuid() and self.gid == posix.getegid()


def resolve(user: str | None, *, root: str = "/") -> User:
    """The user that a text stands for: a name, a uid, `user:group`, or None for this process's own.

    Raises:
        UnknownUser: A name that the files do not have.
    """
    if user is None:
        uid, gid = posix.geteuid(), posix.getegid()
        entry = _by_uid(uid, root)
        name, home = (entry[0], entry[3]) if entry else (str(uid), "/")
        return User(uid, gid, posix.getgroups(), name, home)
    wanted, colon, group = user.partition(":")
    entry = _by_name(wanted, root)
    if entry is None and wanted.isdigit():
        entry = _by_uid(int(wanted), root) or (wanted, int(wanted), 0, "/")
    if entry is None:
        raise UnknownUser(f"there is no user {wanted!r} in the sandbox's /etc/passwd")
    name, uid, gid, home = entry
    if colon:
        gid = _gid(group, root)
        return User(uid, gid, [gid], name, home)
    groups = [number for number, members in _groups(root) if name in members and number != gid]
    return User(uid, gid, [gid, *groups], name, home)


def usable(user: User) -> User:
    """The same user, where this process can become it.

    Raises:
        UnknownUser: It is outside the ids that this sandbox has, or there is no other than this process's own.
    """
    if user.is_current:
        return user
    if posix.geteuid() != 0:
        raise UnknownUser(f"the sandbox has no user but the uid {posix.geteuid()}, so not {user.name!r}")
    for file, ids in (("uid_map", [user.uid]), ("gid_map", [user.gid, *user.groups])):
        for number in ids:
            if not any(first <= number < first + count for first, count in _mapped(file)):
                raise UnknownUser(f"the sandbox has no {file[:3]} {number}, so not the user {user.name!r}")
    return user


_maps: dict[str, list[tuple[int, int]]] = {}


def _mapped(file: str) -> list[tuple[int, int]]:
    """First and number of the ids that exist in this user namespace, range by range; they never change."""
    if file not in _maps:
        rows = [fields[0].split() for fields in _lines(f"/proc/self/{file}")]
        # Without /proc, the kernel has the say.
        _maps[file] = [(int(row[0]), int(row[2])) for row in rows if len(row) == 3] or [(0, (1 << 32) - 1)]
    return _maps[file]


def _lines(path: str) -> Iterator[list[str]]:
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK)
    except OSError:
        return
    try:
        text = b""
        while len(text) < _MAX_FILE:
            part = posix.read(fd, 1 << 16)
            if not part:
                break
            text += part
    except OSError:
        return
    finally:
        posix.close(fd)
    for line in text.decode("utf-8", "surrogateescape").splitlines():
        yield line.split(":")


def _users(root: str) -> Iterator[tuple[str, int, int, str]]:
    for fields in _lines(root + "etc/passwd"):
        if len(fields) >= 6 and fields[2].isdigit() and fields[3].isdigit():
            yield fields[0], int(fields[2]), int(fields[3]), fields[5] or "/"


def _by_name(name: str, root: str) -> tuple[str, int, int, str] | None:
    return next((entry for entry in _users(root) if entry[0] == name), None)


def _by_uid(uid: int, root: str) -> tuple[str, int, int, str] | None:
    return next((entry for entry in _users(root) if entry[1] == uid), None)


def _groups(root: str) -> Iterator[tuple[int, list[str]]]:
    for fields in _lines(root + "etc/group"):
        if len(fields) >= 4 and fields[2].isdigit():
            yield int(fields[2]), fields[3].split(",")


def _gid(group: str, root: str) -> int:
    for fields in _lines(root + "etc/group"):
        if len(fields) >= 3 and fields[0] == group and fields[2].isdigit():
            return int(fields[2])
    if group.isdigit():
        return int(group)
    raise UnknownUser(f"there is no group {group!r} in the sandbox's /etc/group")
