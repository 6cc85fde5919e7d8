"""Patches captured in one sandbox and applied in another, both real processes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentix.errors import PatchError
from agentix.models import SandboxConfig
from agentix.patch import BlobStore, apply_patch, capture_base
from agentix.sandbox import HostProcessProvider, Sandbox

pytestmark = pytest.mark.anyio

BASE = {
    "a.py": b"".join(b"line %d\n" % n for n in range(40)),
    "b/c.txt": b"1\n2\n3\n",
    "b/d.bin": bytes(range(256)) * 40,
    "gone/only.txt": b"x\n",
}


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "store")


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with HostProcessProvider().session(SandboxConfig()) as sandbox:
        for name, content in BASE.items():
            await sandbox.write_file(f"w/{name}", content)
        yield sandbox


def root(sandbox: Sandbox) -> str:
    return f"{sandbox.workdir}/w"


def put(sandbox: Sandbox, name: str, content: bytes, *, mode: int = 0o644) -> None:
    place = Path(root(sandbox)) / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    place.chmod(mode)


def state(path: str) -> dict[str, tuple[int, bytes]]:
    found = {}
    for place in sorted(Path(path).rglob("*")):
        if place.is_symlink():
            found[str(place.relative_to(path))] = (0, os.fsencode(place.readlink()))
        elif place.is_file():
            found[str(place.relative_to(path))] = (place.stat().st_mode & 0o100, place.read_bytes())
    return found


def modes(path: str) -> dict[str, int]:
    return {str(place): place.stat().st_mode for place in (Path(path), *Path(path).rglob("*")) if place.is_dir()}


def content_of(sandbox: Sandbox, name: str) -> bytes:
    return Path(root(sandbox), name).read_bytes()


def stats(sandbox: Sandbox) -> dict[str, tuple[int, int]]:
    files = (place for place in Path(root(sandbox)).rglob("*") if place.is_file())
    return {place.name: (place.stat().st_ino, place.stat().st_mtime_ns) for place in files}


def replaced(number: int, word: bytes, *, ahead: int = 0) -> bytes:
    content = [b"inserted %d\n" % n for n in range(ahead)] + BASE["a.py"].splitlines(keepends=True)
    content[number + ahead] = word + b"\n"
    return b"".join(content)


async def make(sandbox: Sandbox, store: BlobStore, change: Any) -> tuple[str, dict[str, tuple[int, bytes]]]:
    """A patch of what `change` does, and the tree it gives; the sandbox is as it was afterwards."""
    base = await capture_base(sandbox, root(sandbox), store=store)
    change()
    patch = await base.diff(sandbox)
    after = state(root(sandbox))
    await sandbox.remove("w")
    for name, content in BASE.items():
        await sandbox.write_file(f"w/{name}", content)
    return patch.text, after


async def test_a_captured_patch_gives_the_same_tree_elsewhere(sandbox: Sandbox, store: BlobStore) -> None:
    def change() -> None:
        put(sandbox, "a.py", replaced(5, b"new"))
        put(sandbox, "b/d.bin", os.urandom(5000))
        put(sandbox, "new/deep/run.sh", b"#!/bin/sh\n", mode=0o755)
        put(sandbox, 'odd\udce9\n\t".txt', b"\xff\r\n")
        (Path(root(sandbox)) / "link").symlink_to("/etc/passwd")
        (Path(root(sandbox)) / "gone/only.txt").unlink()
        (Path(root(sandbox)) / "b/c.txt").unlink()
        put(sandbox, "b/c.txt/now/a/directory", b"x\n")

    patch, after = await make(sandbox, store, change)
    for name in ("", "/b"):
        os.chmod(root(sandbox) + name, 0o1777)
    before = modes(root(sandbox))
    applied = await apply_patch(sandbox, patch, root(sandbox), store=store)
    assert state(root(sandbox)) == after
    assert applied.method == "exact"
    assert set(applied.removed) == {"gone/only.txt", "b/c.txt"}
    assert not await sandbox.exists("w/gone")
    assert {path: mode for path, mode in modes(root(sandbox)).items() if path in before} == {
        path: mode for path, mode in before.items() if not path.endswith("gone")
    }


async def test_a_directory_becomes_a_file(sandbox: Sandbox, store: BlobStore) -> None:
    def change() -> None:
        for name in ("c.txt", "d.bin"):
            (Path(root(sandbox)) / "b" / name).unlink()
        (Path(root(sandbox)) / "b").rmdir()
        put(sandbox, "b", b"a file\n")

    patch, after = await make(sandbox, store, change)
    await apply_patch(sandbox, patch, root(sandbox), store=store)
    assert state(root(sandbox)) == after


async def test_only_what_changes_is_written(sandbox: Sandbox, store: BlobStore) -> None:
    patch, _ = await make(sandbox, store, lambda: put(sandbox, "b/c.txt", b"1\n2\n4\n"))
    before = stats(sandbox)
    applied = await apply_patch(sandbox, patch, root(sandbox), store=store)
    assert (applied.written, applied.removed) == (("b/c.txt",), ())
    after = stats(sandbox)
    assert {name for name in before if before[name] != after[name]} == {"c.txt"}


async def test_an_empty_patch_changes_nothing(sandbox: Sandbox, store: BlobStore) -> None:
    assert (await apply_patch(sandbox, "\n", root(sandbox), store=store)).method == "nothing"


async def test_a_change_that_is_there_already_is_an_error(sandbox: Sandbox, store: BlobStore) -> None:
    patch, _ = await make(sandbox, store, lambda: put(sandbox, "b/c.txt", b"1\n2\n4\n"))
    await apply_patch(sandbox, patch, root(sandbox), store=store)
    before = state(root(sandbox))
    with pytest.raises(PatchError, match=r"patch failed: b/c.txt:1") as caught:
        await apply_patch(sandbox, patch, root(sandbox), store=store)
    assert caught.value.detail == "patch_rejected"
    assert state(root(sandbox)) == before


async def test_hunks_that_fit_at_other_lines_are_refused_unless_allowed(sandbox: Sandbox, store: BlobStore) -> None:
    patch, _ = await make(sandbox, store, lambda: put(sandbox, "a.py", replaced(20, b"new")))
    put(sandbox, "a.py", replaced(0, b"line 0", ahead=5))
    before = state(root(sandbox))
    with pytest.raises(PatchError, match=r"Hunk #1 succeeded at 23 \(offset 5 lines\)") as caught:
        await apply_patch(sandbox, patch, root(sandbox), store=store)
    assert caught.value.detail == "patch_rejected"
    assert state(root(sandbox)) == before
    applied = await apply_patch(sandbox, patch, root(sandbox), store=store, allow_offset=True)
    assert applied.method == "offset"
    assert content_of(sandbox, "a.py") == replaced(20, b"new", ahead=5)


RENAME = """\
diff --git a/a.py b/moved/a.py
similarity index 90%
rename from a.py
rename to moved/a.py
--- a/a.py
+++ b/moved/a.py
@@ -1,3 +1,3 @@
-line 0
+LINE 0
 line 1
 line 2
"""


async def test_a_rename_with_an_edit(sandbox: Sandbox, store: BlobStore) -> None:
    applied = await apply_patch(sandbox, RENAME, root(sandbox), store=store)
    assert (applied.written, applied.removed) == (("moved/a.py",), ("a.py",))
    assert content_of(sandbox, "moved/a.py") == replaced(0, b"LINE 0")


def new_file(path: str, *, mode: str = "100644", line: str = "x") -> str:
    head = f"diff --git a/{path} b/{path}\nnew file mode {mode}\n"
    return f"{head}--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{line}\n"


HOSTILE = {
    "no patch": "this is no patch\n",
    "outside": new_file("../outside"),
    "absolute": new_file("/etc/cron.d/x"),
    "git hooks": new_file(".git/hooks/post-checkout", mode="100755"),
    "over a link": new_file("l", mode="120000", line="/tmp") + new_file("l/x"),
    "submodule": new_file("sub", mode="160000", line="Subproject commit " + "1" * 40),
    "cut off": RENAME[: RENAME.index(" line 2")],
    "fuzzy": RENAME.replace(" line 1", " line one"),
}


@pytest.mark.parametrize("patch", HOSTILE.values(), ids=HOSTILE.keys())
async def test_what_does_not_apply_changes_nothing(sandbox: Sandbox, store: BlobStore, patch: str) -> None:
    before = state(sandbox.workdir)
    with pytest.raises(PatchError) as caught:
        await apply_patch(sandbox, patch, root(sandbox), store=store)
    assert caught.value.detail == "patch_rejected"
    assert state(sandbox.workdir) == before
    assert list(store.scratch.iterdir()) == []


TREES = st.dictionaries(
    st.sampled_from(["a", "b", "a/b", "a/c", "d/e/f", "é\n", ".gitattributes", "x y"]),
    st.tuples(st.booleans(), st.sampled_from([b"", b"x", b"x\n", b"x\r\ny\n", b"\0\1", b"* -text\n", b"\xff\n" * 9])),
    max_size=6,
).map(lambda tree: {name: what for name, what in tree.items() if not any(o.startswith(f"{name}/") for o in tree)})


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(before=TREES, after=TREES)
async def test_any_two_trees(store: BlobStore, before: Any, after: Any) -> None:
    async with HostProcessProvider().session(SandboxConfig()) as sandbox:
        await sandbox.make_dirs("w")

        async def become(tree: Any) -> None:
            await sandbox.remove("w")
            await sandbox.make_dirs("w")
            for name, (executable, content) in tree.items():
                put(sandbox, name, content, mode=0o755 if executable else 0o644)

        await become(before)
        base = await capture_base(sandbox, root(sandbox), store=store)
        await become(after)
        patch = await base.diff(sandbox)
        assert (patch.text == "") == (before == after)
        await become(before)
        await apply_patch(sandbox, patch.text, root(sandbox), store=store)
        assert state(root(sandbox)) == {name: (0o100 * x, content) for name, (x, content) in after.items()}


async def test_an_unchanged_tree_costs_its_listings_and_no_git(
    sandbox: Sandbox, store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await capture_base(sandbox, root(sandbox), store=store)
    asked: list[str] = []
    run_process = anyio.run_process
    connection = await sandbox.connect()
    call = connection.call

    async def count_processes(*args: Any, **more: Any) -> Any:
        asked.append("git")
        return await run_process(*args, **more)

    def count_calls(method: str, *args: Any, **more: Any) -> Any:
        asked.append(method)
        return call(method, *args, **more)

    monkeypatch.setattr(anyio, "run_process", count_processes)
    monkeypatch.setattr(connection, "call", count_calls)
    base = await capture_base(sandbox, root(sandbox), store=store)
    assert (await base.diff(sandbox)).data == b""
    assert asked == ["tree", "tree"]
    put(sandbox, "a.py", b"changed\n")
    assert (await base.diff(sandbox)).data != b""
    assert asked.count("git") > 0
