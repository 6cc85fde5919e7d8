"""Files of strangers: found in one order, opened only where they are plain files."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.api import WalkEntry, open_plain, walk


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "top"
    (top / "b" / "c").mkdir(parents=True)
    (top / "b" / "c" / "deep").write_bytes(b"12345")
    (top / "b.txt").write_bytes(b"1")
    (top / "a").write_bytes(b"")
    (top / "a").chmod(0o755)
    (top / "loop").symlink_to(top)
    os.mkfifo(top / "pipe")
    with open(os.fsencode(top) + b"/\xff", "wb") as file:
        file.write(b"odd")
    return top


def test_everything_is_found_in_the_order_of_names_and_links_are_not_followed(tree: Path) -> None:
    found = list(walk(tree))
    assert [(entry.name, entry.kind, entry.size, entry.executable) for entry in found] == [
        (b"a", "file", 0, True),
        (b"b", "directory", 0, False),
        (b"b/c", "directory", 0, False),
        (b"b/c/deep", "file", 5, False),
        (b"b.txt", "file", 1, False),
        (b"loop", "link", 0, False),
        (b"pipe", "pipe", 0, False),
        (b"\xff", "file", 3, False),
    ]
    assert found[-1].shown == r"\udcff"
    assert found[-1].below(tree).read_bytes() == b"odd"


def test_of_what_is_no_directory_there_is_only_itself(tree: Path) -> None:
    (entry,) = walk(tree / "b.txt")
    assert (entry.name, entry.kind, entry.below(tree / "b.txt")) == (b"", "file", tree / "b.txt")
    assert [entry.kind for entry in walk(tree / "loop")] == ["link"]
    with pytest.raises(FileNotFoundError):
        next(walk(tree / "none"))


def test_what_is_not_wanted_is_not_looked_into(tree: Path) -> None:
    (tree / "b" / "c").chmod(0)
    assert b"b/c" not in {entry.name for entry in walk(tree, wanted=lambda entry: entry.name != b"b/c")}
    (tree / "b" / "c").chmod(0o755)


def test_a_directory_that_cannot_be_read_is_an_error_or_told(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def scandir(path: bytes) -> object:
        if path.endswith(b"/c"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError):
        list(walk(tree))
    told: list[OSError] = []
    names = [entry.name for entry in walk(tree, unreadable=told.append)]
    assert b"b/c" in names
    assert b"b.txt" in names
    assert [error.errno for error in told] == [errno.EACCES]


@given(st.sets(st.text("ab/", min_size=1, max_size=6).map(lambda t: "/".join(filter(None, t.split("/")))), max_size=8))
def test_the_order_is_that_of_the_parts_of_names(tmp_path_factory: pytest.TempPathFactory, names: set[str]) -> None:
    top = tmp_path_factory.mktemp("walk")
    for name in filter(None, names):
        (top / name).mkdir(parents=True, exist_ok=True)
    found = [entry.name.split(b"/") for entry in walk(top)]
    assert found == sorted(found)
    assert {b"/".join(parts).decode() for parts in found} >= {name for name in names if name}


def test_a_plain_file_is_opened(tree: Path) -> None:
    with open_plain(tree / "b" / "c" / "deep") as file:
        assert file.read() == b"12345"
    with open_plain(os.fsencode(tree) + b"/\xff", buffering=0) as file:
        assert file.read() == b"odd"


@pytest.mark.parametrize("name", ["pipe", "loop", "b", "socket", "none"])
def test_nothing_else_is_opened(tree: Path, name: str) -> None:
    if name == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(tree / "socket"))
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match=name):
        open_plain(tree / name)
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_entry_can_be_made_by_hand() -> None:
    assert WalkEntry(b"x", "file").size == 0
