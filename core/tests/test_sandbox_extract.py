from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentix.runtime.archive import DIRECTORY, FILE, LINK, Entry
from agentix.sandbox.extract import Extractor


def extract(
    local: Path, entries: list[tuple[Entry, bytes]], *, max_bytes: int = 10_000, max_entries: int = 100
) -> Extractor:
    extractor = Extractor(local, max_bytes=max_bytes, max_entries=max_entries)
    for entry, content in entries:
        if extractor.full:
            break
        extractor.begin(entry)
        if content:
            extractor.write(content)
    extractor.close()
    return extractor


def file(path: bytes, content: bytes = b"content", mode: int = 0o644) -> tuple[Entry, bytes]:
    return Entry(path, FILE, mode=mode, size=len(content)), content


def link(path: bytes, target: bytes) -> tuple[Entry, bytes]:
    return Entry(path, LINK, target=target), b""


@pytest.fixture
def local(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.mark.parametrize(
    "path",
    [b"../evil", b"/evil", b"a/../../evil", b"a//evil", b"./evil", b"a/..", b"..", b"a\0b", b"x" * 256, b"d/" * 2500],
)
def test_a_path_that_is_not_a_plain_relative_one_is_refused(local: Path, tmp_path: Path, path: bytes) -> None:
    extractor = extract(local, [file(path), file(b"good")])
    assert len(extractor.refused) == 1
    assert [found.name for found in tmp_path.rglob("*") if found.is_file()] == ["good"]


@pytest.mark.parametrize(
    ("path", "target"),
    [
        (b"l", b"/etc"),
        (b"l", b".."),
        (b"l", b"../x"),
        (b"d/l", b"../../x"),
        (b"l", b"a/../../x"),
        (b"l", b"a/b/.."),
        (b"l", b""),
        (b"l", b"x" * 5000),
    ],
)
def test_a_link_that_may_lead_outside_is_refused(local: Path, path: bytes, target: bytes) -> None:
    extractor = extract(local, [link(path, target)])
    assert extractor.refused[0].path == path
    assert not any(found.is_symlink() for found in local.rglob("*"))


@pytest.mark.parametrize(
    ("path", "target"), [(b"l", b"x/y"), (b"d/l", b"../x"), (b"a/b/l", b"../../x/y"), (b"l", b".")]
)
def test_a_link_that_stays_inside_is_kept(local: Path, path: bytes, target: bytes) -> None:
    extractor = extract(local, [link(path, target)])
    assert extractor.refused == ()
    assert os.readlink(os.path.join(os.fsencode(local), path)) == target


def test_nothing_is_written_through_a_link_that_came_before(local: Path) -> None:
    extractor = extract(local, [file(b"real/kept"), link(b"door", b"real"), file(b"door/evil"), file(b"door", b"new")])
    assert [(refusal.path, refusal.reason) for refusal in extractor.refused] == [
        (b"door/evil", "its path leads over something that is not a directory")
    ]
    assert not (local / "real/evil").exists()
    assert (local / "door").read_bytes() == b"new"


def test_a_link_that_was_there_before_is_not_followed(local: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "victim").write_bytes(b"untouched")
    local.mkdir()
    (local / "door").symlink_to(tmp_path / "outside")
    (local / "name").symlink_to(tmp_path / "victim")
    extractor = extract(local, [file(b"door/evil"), file(b"name", b"new")])
    assert len(extractor.refused) == 1
    assert list((tmp_path / "outside").iterdir()) == []
    assert (tmp_path / "victim").read_bytes() == b"untouched"
    assert (local / "name").read_bytes() == b"new"


@pytest.mark.parametrize("kind", [b"1", b"3", b"4", b"6", b"7", b"g", b"S", b"\xff"])
def test_anything_but_files_links_and_directories_is_refused(local: Path, kind: bytes) -> None:
    extractor = extract(local, [(Entry(b"thing", kind, target=b"/etc/passwd"), b""), file(b"good")])
    assert [refusal.path for refusal in extractor.refused] == [b"thing"]
    assert [path.name for path in local.iterdir()] == ["good"]


@pytest.mark.parametrize(
    ("mode", "kept"), [(0o4755, 0o755), (0o2777, 0o755), (0o666, 0o644), (0o000, 0o600), (0o011, 0o600), (0o500, 0o700)]
)
def test_modes_are_kept_without_what_is_dangerous(local: Path, mode: int, kept: int) -> None:
    extract(local, [file(b"f", mode=mode)])
    assert stat.S_IMODE((local / "f").stat().st_mode) == kept


def test_a_file_larger_than_it_said_is_counted_by_what_comes(local: Path) -> None:
    extractor = Extractor(local, max_bytes=1000, max_entries=10)
    extractor.begin(Entry(b"f", FILE, size=10))
    for _ in range(20):
        extractor.write(b"x" * 100)
    extractor.close()
    assert extractor.full
    assert (local / "f").stat().st_size <= 1000


def test_a_sparse_terabyte_is_refused_by_its_size(local: Path) -> None:
    extractor = extract(local, [(Entry(b"sparse", FILE, size=1 << 40), b"")])
    assert extractor.full
    assert "more than 10000 bytes" in extractor.refused[0].reason
    assert list(local.parent.rglob("sparse")) == []


def test_endless_entries_stop_at_the_limit(local: Path) -> None:
    extractor = extract(local, [file(b"f%d" % number, b"") for number in range(1000)])
    assert extractor.full
    assert len(list(local.iterdir())) == 100


def test_refusals_do_not_grow_without_bound(local: Path) -> None:
    extractor = extract(local, [file(b"../x", b"") for _ in range(5000)])
    assert len(extractor.refused) == 1001
    assert extractor.refused[-1].reason == "4000 more were refused"


def test_a_directory_in_the_place_of_a_file_is_refused(local: Path) -> None:
    extractor = extract(local, [(Entry(b"d", DIRECTORY), b""), file(b"d"), file(b"f"), (Entry(b"f", DIRECTORY), b"")])
    assert [refusal.path for refusal in extractor.refused] == [b"d", b"f"]
    assert (local / "d").is_dir()
    assert (local / "f").is_file()


def test_no_descriptor_stays_open(local: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    extract(local, [file(b"a/b/c"), link(b"a/l", b"b"), file(b"a/l/x"), file(b"../x"), (Entry(b"d/e", DIRECTORY), b"")])
    assert len(os.listdir("/proc/self/fd")) == before


PARTS = st.sampled_from([b"a", b"b", b"..", b".", b"", b"l"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map(b"/".join)
ENTRIES = st.lists(
    st.one_of(
        st.builds(file, PATHS),
        st.builds(link, PATHS, PATHS),
        st.builds(lambda path: (Entry(path, DIRECTORY), b""), PATHS),
    ),
    max_size=12,
)


@given(ENTRIES)
@settings(max_examples=300, deadline=None)
def test_no_sequence_of_entries_escapes_or_leaves_a_link_that_does(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[Entry, bytes]]
) -> None:
    top = tmp_path_factory.mktemp("extract")
    local = top / "mid" / "out"
    extract(local, entries)
    assert {path.name for path in top.iterdir()} <= {"mid"}
    assert not (top / "mid").exists() or {path.name for path in (top / "mid").iterdir()} <= {"out"}
    for path in local.rglob("*"):
        if path.is_symlink():
            try:
                os.stat(path)
            except OSError as error:
                if error.errno == errno.ELOOP:
                    continue  # leads nowhere, and realpath(3) has no answer for it
            resolved = os.path.realpath(path)
            assert resolved == str(local) or resolved.startswith(f"{local}/")
