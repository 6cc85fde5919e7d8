"""What is written without git is what git writes; what many processes write is whole."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentix.patch import BlobStore
from agentix.patch.index import read_index, write_index
from agentix.patch.manifest import EXECUTABLE, FILE, LINK, Item
from agentix.patch.objects import ObjectDir, blob_name

NAMES = st.lists(
    st.binary(min_size=1, max_size=6).filter(lambda n: b"/" not in n and b"\0" not in n and n not in (b".", b"..")),
    min_size=1,
    max_size=3,
).map(b"/".join)
ITEMS = st.dictionaries(NAMES, st.tuples(st.sampled_from([FILE, EXECUTABLE, LINK]), st.binary(max_size=40)), max_size=8)
TREES = ITEMS.map(
    lambda tree: {name: what for name, what in tree.items() if not any(o.startswith(name + b"/") for o in tree)}
)


def git(directory: Path, *args: str, stdin: bytes = b"") -> bytes:
    env = {"PATH": os.environ["PATH"], "GIT_DIR": str(directory / "git"), "GIT_INDEX_FILE": str(directory / "index")}
    return subprocess.run(["git", *args], env=env, input=stdin, check=True, capture_output=True).stdout


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(tree=TREES)
def test_git_reads_what_was_written(tmp_path: Path, tree: dict[bytes, tuple[int, bytes]]) -> None:
    if not (tmp_path / "git").exists():
        git(tmp_path, "init", "-q", "--bare")
    objects = ObjectDir(tmp_path / "git" / "objects")
    items = {
        name: Item(mode, objects.add_stream(io.BytesIO(content), len(content)))
        for name, (mode, content) in tree.items()
    }
    listing = b"".join(b"%o %s 0\t%s\0" % (item.mode, item.blob.encode(), name) for name, item in sorted(items.items()))
    write_index(tmp_path / "index", items)
    assert git(tmp_path, "ls-files", "-s", "-z") == listing
    assert read_index(tmp_path / "index") == items
    written = objects.add_tree(items)
    assert git(tmp_path, "ls-tree", "-r", "-z", written) == listing.replace(b" 0\t", b"\t").replace(
        b"00644 ", b"00644 blob "
    ).replace(b"00755 ", b"00755 blob ").replace(b"20000 ", b"20000 blob ")
    for name, (_, content) in tree.items():
        assert b"".join(objects.read(items[name].blob)) == content


def test_a_damaged_object_is_an_error(tmp_path: Path) -> None:
    objects = ObjectDir(tmp_path)
    name = objects.add("blob", b"x" * 100_000)
    whole = objects.file(name).read_bytes()
    for damaged in (whole[:-10], b"nonsense", b""):
        objects.file(name).write_bytes(damaged)
        with pytest.raises(OSError, match="is damaged"):
            list(objects.read(name))
    assert not objects.has(name)


@pytest.mark.parametrize(("size", "said"), [(4, "longer than it was"), (6, "ends 1 bytes early")])
def test_a_file_of_another_size_is_not_stored(tmp_path: Path, size: int, said: str) -> None:
    objects = ObjectDir(tmp_path)
    with pytest.raises(OSError, match=said):
        objects.add_stream(io.BytesIO(b"12345"), size)
    assert list(tmp_path.iterdir()) == []


WRITER = """
import sys
from pathlib import Path
from agentix.patch import BlobStore
store = BlobStore(Path(sys.argv[1]))
store.open()
for number in range(150):
    store.objects.add("blob", b"%d" % number * 2000)
    assert not store.missing([store.objects.add("blob", b"%d" % (number // 2) * 2000)])
"""


def test_many_processes_write_the_same_blobs(tmp_path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)]) for _ in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    store = BlobStore(tmp_path)
    for number in range(150):
        content = b"%d" % number * 2000
        assert b"".join(store.objects.read(blob_name(content))) == content
    assert [path for path in store.objects.path.iterdir() if path.is_file()] == []


def test_pruning_takes_what_is_old_and_use_keeps_it(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "a:b")
    assert store.prune() == (0, 0)
    store.open()
    old, used, new = (store.objects.add("blob", content) for content in (b"old", b"used", b"new"))
    long_ago = time.time() - 10 * 86_400
    for name in (old, used):
        os.utime(store.objects.file(name), (long_ago, long_ago))
    for left in (store.scratch / "capture-x", store.objects.path / "new-x"):
        left.mkdir() if left.parent == store.scratch else left.write_bytes(b"half")
        os.utime(left, (long_ago, long_ago))
    running = store.scratch / "capture-y"
    running.mkdir()
    assert store.missing([old, used, new, "0" * 40]) == {"0" * 40}
    os.utime(store.objects.file(old), (long_ago, long_ago))
    assert store.prune(dry_run=True).files == 2
    assert store.missing([used]) == set()
    assert store.prune().files == 2
    assert store.missing([old, used, new]) == {old}
    assert list(store.scratch.iterdir()) == [running]
    store.prune(unused_for_s=-1)
    assert store.missing([used, new]) == {used, new}
    assert list(store.scratch.iterdir()) == [running]


def test_the_store_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTIX_CACHE_DIR", str(tmp_path / "cache"))
    store = BlobStore.default()
    store.open()
    assert store.root == tmp_path / "cache" / "blobs" / str(os.getuid())
    assert store.root.stat().st_mode & 0o777 == 0o700
