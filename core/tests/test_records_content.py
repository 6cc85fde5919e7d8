from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentix.api import DatasetError
from agentix.records.content import content_hash

names = st.binary(min_size=1, max_size=20).filter(lambda n: b"/" not in n and b"\0" not in n and n not in (b".", b".."))
trees = st.dictionaries(names, st.binary(max_size=50), max_size=6)
settings.register_profile(
    "files", suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
files = settings(settings.get_profile("files"), max_examples=40)


def _write(root: Path, tree: dict[bytes, bytes], *, reverse: bool = False) -> Path:
    root.mkdir(parents=True)
    for name, content in sorted(tree.items(), reverse=reverse):
        (root / os.fsdecode(name)).write_bytes(content)
    return root


@pytest.fixture
def fresh(tmp_path: Path):  # type: ignore[no-untyped-def]
    count = iter(range(10**6))
    return lambda: tmp_path / str(next(count))


@files
@given(tree=trees)
def test_order_of_writing_times_and_umask_do_not_count(fresh, tree: dict[bytes, bytes]) -> None:  # type: ignore[no-untyped-def]
    first = _write(fresh(), tree)
    old = os.umask(0o077)
    try:
        second = _write(fresh(), tree, reverse=True)
    finally:
        os.umask(old)
    for path in second.iterdir():
        os.utime(path, (1, 1))
    assert content_hash(first) == content_hash(second)


@files
@given(one=trees, other=trees)
def test_two_trees_have_one_hash_only_if_they_are_equal(fresh, one, other) -> None:  # type: ignore[no-untyped-def]
    one, other = ({k: v for k, v in tree.items() if k != b".git"} for tree in (one, other))
    assert (content_hash(_write(fresh(), one)) == content_hash(_write(fresh(), other))) == (one == other)


def test_the_hash_is_the_one_that_is_described(tmp_path: Path) -> None:
    root = tmp_path / "task"
    (root / "b").mkdir(parents=True)
    (root / "b" / "run.sh").write_bytes(b"x")
    (root / "b" / "run.sh").chmod(0o755)
    (root / "a").symlink_to("b/run.sh")
    fields = [b"l", b"", b"a", b"b/run.sh", b"d", b"", b"b", b"", b"f", b"x", b"b/run.sh", b"x"]
    expected = hashlib.sha256(b"".join(len(f).to_bytes(8, "big") + f for f in fields)).hexdigest()
    assert content_hash(root) == expected


def test_entries_are_sorted_by_the_bytes_of_their_whole_path(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "z").touch()
    (tmp_path / "a.b").touch()
    fields: list[bytes] = [b"d", b"", b"a", b"", b"f", b"", b"a.b", b"", b"f", b"", b"a/z", b""]
    assert content_hash(tmp_path) == hashlib.sha256(b"".join(len(f).to_bytes(8, "big") + f for f in fields)).hexdigest()


def test_what_counts(tmp_path: Path) -> None:
    root = tmp_path / "task"
    root.mkdir()
    (root / "file").write_text("x")
    seen = {content_hash(root)}

    def changed() -> bool:
        before = len(seen)
        seen.add(content_hash(root))
        return len(seen) > before

    (root / "file").chmod(0o744)
    assert changed(), "the run bit"
    (root / "file").chmod(0o711)
    assert not changed(), "other bits"
    (root / "empty").mkdir()
    assert changed(), "an empty directory"
    (root / "link").symlink_to("/nowhere")
    assert changed(), "a link"
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").touch()
    assert not changed(), "the root's .git"
    (root / "empty" / ".git").mkdir()
    assert changed(), "another .git"


def test_a_link_to_a_directory_is_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "task"
    root.mkdir()
    (root / "up").symlink_to("..")
    (tmp_path / "noise").touch()
    before = content_hash(root)
    (tmp_path / "noise").write_text("more")
    assert content_hash(root) == before


def test_a_socket_has_no_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(tmp_path)
        server.bind("s")
        with pytest.raises(DatasetError, match="neither a file"):
            content_hash(tmp_path)
