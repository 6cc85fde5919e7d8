from __future__ import annotations

import os
import posix
from pathlib import Path

import pytest

from agentix.runtime import users


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_bytes(
        b"root:x:0:0:root:/root:/bin/sh\nbroken line\nagent:x:1000:1001:caf\xe9:/home/agent:/bin/sh\n"
    )
    (tmp_path / "etc/group").write_text("agents:x:1001:\ndocker:x:999:other,agent\nwheel:x:10:other\n")
    return f"{tmp_path}/"


@pytest.mark.parametrize("user", ["agent", "1000"])
def test_a_user_is_found_by_name_and_by_uid(root: str, user: str) -> None:
    found = users.resolve(user, root=root)
    assert (found.uid, found.gid, found.name, found.home) == (1000, 1001, "agent", "/home/agent")
    assert found.groups == [1001, 999]


@pytest.mark.parametrize(("user", "gid"), [("agent:10", 10), ("1000:wheel", 10), ("0:0", 0), ("5000:77", 77)])
def test_a_group_can_be_named(root: str, user: str, gid: int) -> None:
    found = users.resolve(user, root=root)
    assert (found.gid, found.groups) == (gid, [gid])


def test_a_uid_that_has_no_entry_can_be_used(root: str) -> None:
    found = users.resolve("4242", root=root)
    assert (found.uid, found.gid, found.name, found.home) == (4242, 0, "4242", "/")


@pytest.mark.parametrize("user", ["nobody-here", "agent:nogroup", "", "-1", "agent:"])
def test_who_is_unknown_is_named(root: str, user: str) -> None:
    with pytest.raises(users.UnknownUser, match="sandbox's /etc/"):
        users.resolve(user, root=root)


def test_without_the_files_numbers_still_work(tmp_path: Path) -> None:
    assert users.resolve("12:34", root=f"{tmp_path}/").gid == 34
    assert users.resolve(None, root=f"{tmp_path}/").uid == os.geteuid()


@pytest.mark.parametrize(
    ("user", "said"),
    [("65536", "no uid 65536"), ("99999999999999", "no uid 99999999999999"), ("5:65536", "no gid 65536")],
)
def test_who_is_outside_the_ids_of_the_sandbox_is_named(
    monkeypatch: pytest.MonkeyPatch, root: str, user: str, said: str
) -> None:
    monkeypatch.setattr(posix, "geteuid", lambda: 0)
    monkeypatch.setattr(users, "_maps", {"uid_map": [(0, 65536)], "gid_map": [(0, 10), (1000, 64536)]})
    assert users.usable(users.resolve("65535:1000", root=root)).uid == 65535
    with pytest.raises(users.UnknownUser, match=said):
        users.usable(users.resolve(user, root=root))


def test_without_root_there_is_no_other_user(monkeypatch: pytest.MonkeyPatch, root: str) -> None:
    monkeypatch.setattr(posix, "geteuid", lambda: 4242)
    monkeypatch.setattr(posix, "getegid", lambda: 0)
    assert users.usable(users.resolve("4242", root=root)).name == "4242"
    with pytest.raises(users.UnknownUser, match="no user but the uid 4242, so not 'agent'"):
        users.usable(users.resolve("agent", root=root))
