"""The cases that have made other harnesses lose or damage patches, on plain directories."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from patch_directory import (
    Directory,
    applied,
    capture,
    git,
    give_away,
    put,
    record,
    shell,
    state,
    times,
)

from agentix.errors import PatchError
from agentix.patch import BlobStore, CapturedPatch, PatchLimits, capture_base

pytestmark = pytest.mark.anyio


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / 'odd: "store"\\')


@pytest.fixture
def work(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\ntwo\n", b"one\ntwo\nthree"),
        (b"a\n\n\n", b"b\n\n\n"),
        (b"one\ntwo", b"one\nTWO"),
        (b"one\ntwo", b"one\ntwo\n"),
        (b"x\r\ny\r\n", b"x\r\nz\r\n"),
        (b"x\r\ny\r\n", b"x\ny\n"),
        (b"a\rb\rc", b"a\rB\rc"),
        (b"\xe9\xff\n", b"\xe9\xfe\n"),
        (b"", b"\n"),
        (b"x", b""),
        (b"a \t\n", b"a\n\x0c\n"),
    ],
)
async def test_bytes_come_through_unchanged(work: Path, store: BlobStore, before: bytes, after: bytes) -> None:
    put(work, {"f": before})
    sandbox, base, clean = await record(work, store)
    put(work, {"f": after})
    patch = await capture(sandbox, base)
    assert patch.text.encode("utf-8", "surrogateescape") == patch.data
    assert applied(patch, clean) == state(work)


async def test_git_attributes_and_configuration_of_the_tree_have_no_say(work: Path, store: BlobStore) -> None:
    git(work, "init", "-q")
    for key, value in {
        "core.autocrlf": "true",
        "filter.fail.clean": "false",
        "filter.fail.required": "true",
        "diff.odd.textconv": "tr a-z A-Z",
        "diff.odd.command": "echo nothing",
        "diff.noprefix": "true",
        "core.hooksPath": "hooks",
    }.items():
        git(work, "config", key, value)
    rules = "*.txt text eol=crlf\n*.c filter=fail\n*.py diff=odd\n*.md binary\n*.rs -diff\n*.go ident\n"
    put(work, {".gitattributes": rules, "a.txt": b"x\r\ny\r\n", "b.c": "int a;\n", "c.py": "a = 1\n", "d.md": "x\n"})
    put(work, {"e.rs": "old\n", "f.go": "$Id$\n"})
    sandbox, base, clean = await record(work, store)
    put(work, {"a.txt": b"x\r\nz\r\n", "b.c": "int b;\n", "c.py": "a = 2\n", "d.md": "y\n", "e.rs": "new\n"})
    put(work, {"f.go": "$Id$ 2\n", "sub/.gitattributes": "* -text -diff\n", "sub/g.txt": "new\n"})
    patch = await capture(sandbox, base)
    assert applied(patch, clean) == state(work)
    for line in (b"+int b;", b"+a = 2", b"+y", b"+new", b"+z\r\n", b"+$Id$ 2"):
        assert line in patch.data


VARIANTS = {
    "commit": "git commit -qam x",
    "branch": "git checkout -qb x && git commit -qam x",
    "amend": "git commit -qa --amend -m x",
    "reset": "git commit -qam x && git reset -q --soft HEAD~1",
    "stash apply": "git stash -q && git stash apply -q",
    "rebase": "git commit -qam x && git rebase -q --root",
    "gc": "git commit -qam x && git reflog expire --expire=now --all && git gc -q --prune=now",
    "new repository": "rm -rf .git && git init -q",
    "no repository": "rm -rf .git",
    "index lock": "touch .git/index.lock",
    "broken index": "echo broken > .git/index",
    "replaced objects": "git replace $(git rev-parse HEAD:a.py) $(git hash-object -w b.py)",
    "git is a file": "rm -rf .git && echo gitdir: /nowhere > .git",
    "assume unchanged": "git update-index --assume-unchanged a.py",
    "ignored from now on": "echo '*' > .git/info/exclude",
    "unreadable": "chmod 000 a.py",
}


async def test_what_the_agent_does_with_git_does_not_change_the_patch(tmp_path: Path, store: BlobStore) -> None:
    patches = {}
    for name, script in VARIANTS.items():
        work = tmp_path / name / "work"
        work.mkdir(parents=True)
        put(work, {"a.py": "a = 1\n", "b.py": "b = 1\n"})
        git(work, "init", "-q")
        git(work, "add", "-A")
        git(work, "commit", "-qm", "one")
        put(work, {"b.py": "b = 2\n"})
        git(work, "commit", "-qam", "two")
        sandbox, base, _ = await record(work, store)
        put(work, {"a.py": "a = 2\n", "new.py": "n = 1\n"})
        shell(work, script)
        patches[name] = (await capture(sandbox, base)).data
    assert len(set(patches.values())) == 1, patches
    assert b"+a = 2" in patches["commit"]
    assert b"new.py" in patches["commit"]


async def test_binary_files_are_added_changed_and_deleted(work: Path, store: BlobStore) -> None:
    noise = random.Random(7)
    put(work, {"changed.bin": noise.randbytes(100_000), "deleted.bin": noise.randbytes(50_000)})
    sandbox, base, clean = await record(work, store)
    put(work, {"changed.bin": noise.randbytes(100_000), "added.bin": noise.randbytes(1_000_000)})
    (work / "deleted.bin").unlink()
    patch = await capture(sandbox, base)
    assert b"GIT binary patch" in patch.data
    assert applied(patch, clean) == state(work)


async def test_a_file_over_the_limit_is_left_out_by_name(work: Path, store: BlobStore) -> None:
    put(work, {"big.bin": bytes(3000), "small": "a\n"})
    sandbox, base, _ = await record(work, store, limits=PatchLimits(max_file_bytes=2000))
    assert sandbox.fetched == [b"small"]
    put(work, {"big.bin": bytes(3001), "small": "b\n", "new.bin": bytes(2001)})
    patch = await capture(sandbox, base)
    assert patch.excluded == ("big.bin", "new.bin")
    assert any("max_file_bytes" in note and "big.bin" in note for note in patch.notes)
    assert b"+b" in patch.data
    assert b".bin" not in patch.data


async def test_a_patch_over_the_limit_is_an_error_that_names_it(work: Path, store: BlobStore) -> None:
    sandbox, base, _ = await record(work, store, limits=PatchLimits(max_patch_bytes=1000))
    put(work, {"big.txt": "line\n" * 500})
    with pytest.raises(PatchError, match="max_patch_bytes") as caught:
        await capture(sandbox, base)
    assert caught.value.detail == "patch_too_large"


NAMES = [b"\xe9t\xe9.txt", b'q"uote', b"t\tab", b"new\nline", b"-dash", b"--output=x", b":(top)x", b":x", b" lead"]
NAMES += ["ünï/🚀".encode(), b"back\\slash", b"a/*?[x]", b"trail ", b"a\x01b", b"a/b", b"git~1", b"x.git/y"]


async def test_odd_names_come_through(work: Path, store: BlobStore) -> None:
    put(work, {name: name for name in NAMES[::2]})
    put(work, {".gitignore": "*.nothing\n"})
    sandbox, base, clean = await record(work, store)
    put(work, {name: name + b"!" for name in NAMES})
    patch = await capture(sandbox, base)
    assert patch.excluded == ()
    assert applied(patch, clean) == state(work)


async def test_links_and_the_executable_bit_are_part_of_the_tree(work: Path, store: BlobStore) -> None:
    put(work, {"run.sh": "x\n", "plain": "y\n", "d/e": "z\n", "to-file": "1\n"})
    (work / "link").symlink_to("plain")
    (work / "dir-link").symlink_to("d")
    (work / "outside").symlink_to("/etc/passwd")
    sandbox, base, clean = await record(work, store)
    (work / "run.sh").chmod(0o755)
    (work / "link").unlink()
    (work / "link").symlink_to("/etc/shadow")
    (work / "outside").unlink()
    put(work, {"outside": "now a file\n"})
    (work / "dir-link").unlink()
    put(work, {"dir-link/below": "now a directory\n"})
    shutil.rmtree(work / "d")
    put(work, {"d": "now a file\n"})
    (work / "to-file").unlink()
    (work / "to-file").symlink_to("gone")
    patch = await capture(sandbox, base)
    assert applied(patch, clean) == state(work)


async def test_empty_directories_and_special_files_are_no_change(work: Path, store: BlobStore) -> None:
    put(work, {"a": "1\n"})
    sandbox, base, _ = await record(work, store)
    (work / "empty").mkdir()
    os.mkfifo(work / "pipe")
    patch = await capture(sandbox, base)
    assert (patch.data, patch.text, patch.excluded) == (b"", "", ("pipe",))
    assert any("pipe" in note and "special" in note for note in patch.notes)


async def test_a_nested_repository_is_a_directory_of_files(work: Path, store: BlobStore) -> None:
    put(work, {"a": "1\n"})
    sandbox, base, clean = await record(work, store)
    put(work, {"lib/x.py": "x\n"})
    git(work / "lib", "init", "-q")
    git(work / "lib", "add", "-A")
    git(work / "lib", "commit", "-qm", "x")
    patch = await capture(sandbox, base)
    assert b"160000" not in patch.data
    assert applied(patch, clean) == state(work)


async def test_the_base_is_what_setup_left_and_what_is_left_out_is_listed(work: Path, store: BlobStore) -> None:
    put(work, {"a.py": "a = 1\n", "build/x.py": "made\n", "out.log": "setup\n"})
    put(work, {".gitignore": "*.pyc\n/cache/\n!keep.pyc\n", "sub/.gitignore": "local\n", "tracked.pyc": "1\n"})
    sandbox, base, clean = await record(work, store, exclude=("*.tmp", "/notes/"))
    put(work, {"a.py": "a = 2\n", "repro.py": "r\n", "a.pyc": b"\0", "keep.pyc": "k\n", "cache/1": "1", "cache/2": "2"})
    put(work, {"sub/local": "l\n", "sub/deep/local": "l\n", "x.tmp": "x\n", "notes/n": "n\n", "tracked.pyc": "2\n"})
    put(work, {"evil/.gitignore": "*\n", "evil/code.py": "c\n"})
    patch = await capture(sandbox, base)
    assert patch.excluded == ("a.pyc", "cache/", "notes/", "sub/deep/", "sub/local", "x.tmp")
    expected = {b"a.py", b"repro.py", b"keep.pyc", b"tracked.pyc", b"evil/.gitignore", b"evil/code.py"}
    before = state(clean)
    after = applied(patch, clean)
    assert {name for name, what in after.items() if before.get(name) != what} == expected
    assert len([note for note in patch.notes if "left out" in note]) == 2


async def test_an_ignore_file_that_the_agent_writes_hides_nothing(work: Path, store: BlobStore) -> None:
    put(work, {"a": "1\n"})
    sandbox, base, _ = await record(work, store)
    put(work, {".gitignore": "*\n", "b": "2\n"})
    patch = await capture(sandbox, base)
    assert b"b/b" in patch.data
    assert patch.excluded == ()


async def test_a_repository_of_another_owner_is_no_obstacle(work: Path, store: BlobStore) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to give files away")
    put(work, {"a": "1\n"})
    git(work, "init", "-q")
    give_away(work)
    sandbox, base, clean = await record(work, store)
    put(work, {"a": "2\n"})
    assert applied(await capture(sandbox, base), clean) == state(work)


async def test_the_environment_of_this_process_does_not_reach_git(
    work: Path, store: BlobStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put(work, {"a": "1\n"})
    sandbox, base, clean = await record(work, store)
    put(work, {"a": "2\n", "b": "3\n"})
    home = tmp_path / "home"
    put(home, {".gitconfig": "[diff]\n noprefix = true\n", ".config/git/attributes": "* binary\n"})
    put(home, {".config/git/ignore": "*\n"})
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere")
    patch = await capture(sandbox, base)
    monkeypatch.undo()
    assert b"+3" in patch.data
    assert applied(patch, clean) == state(work)


async def test_equal_trees_start_no_process(work: Path, store: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    put(work, {"a": "1\n", "b/c": "2\n"})
    sandbox, base, _ = await record(work, store)
    monkeypatch.setenv("PATH", "/nowhere")
    os.utime(work / "a")
    assert await capture(sandbox, base) == CapturedPatch()
    put(work, {"a": "2\n"})
    with pytest.raises(PatchError, match="git is not installed"):
        await capture(sandbox, base)


async def test_a_failing_git_is_an_error_and_never_an_empty_patch(
    work: Path, store: BlobStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put(work, {"a": "1\n"})
    sandbox, base, _ = await record(work, store)
    put(work, {"a": "2\n"})
    put(tmp_path, {"bin/git": "#!/bin/sh\necho 'fatal: no space left' >&2; exit 128\n"})
    (tmp_path / "bin/git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    with pytest.raises(PatchError, match=r"exit code 128: fatal: no space left") as caught:
        await capture(sandbox, base)
    assert (caught.value.code, caught.value.detail) == ("HOST_ERROR", "patch_capture")


async def test_a_patch_that_does_not_give_the_tree_is_an_error(
    work: Path, store: BlobStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put(work, {"a": "1\n", "b": "1\n"})
    sandbox, base, _ = await record(work, store)
    put(work, {"a": "2\n", "b": "2\n"})
    real = shutil.which("git")
    cut = 'for o; do case $o in --output=*) sed -i "/^diff.* b.b/,\\$d" "${o#*=}";; esac; done'
    script = f'#!/bin/sh\n{real} "$@" || exit\n{cut}\n'
    put(tmp_path, {"bin/git": script})
    (tmp_path / "bin/git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with pytest.raises(PatchError, match="does not give the working tree: b"):
        await capture(sandbox, base)


async def test_nothing_is_written_where_the_agent_works(work: Path, store: BlobStore) -> None:
    put(work, {"a": "1\n"})
    sandbox, base, _ = await record(work, store)
    put(work, {"a": "2\n"})
    before = times(work)
    await capture(sandbox, base)
    assert times(work) == before


async def test_no_scratch_files_stay(work: Path, store: BlobStore) -> None:
    put(work, {"a": "1\n"})
    sandbox, base, _ = await record(work, store)
    put(work, {"a": "2\n"})
    await capture(sandbox, base)
    assert list(store.scratch.iterdir()) == []


async def test_a_second_trial_fetches_only_what_is_new(work: Path, store: BlobStore) -> None:
    put(work, {"a": "1\n", "b": "2\n", "copy-of-b": "2\n"})
    first, _, _ = await record(work, store)
    assert len(first.fetched) == 2
    put(work, {"a": "3\n"})
    second = Directory(work)
    await capture_base(second, str(work), store=store)  # type: ignore[arg-type]
    assert second.fetched == [b"a"]


async def test_a_file_that_changes_while_it_is_read_is_taken_as_it_is_now(work: Path, store: BlobStore) -> None:
    put(work, {"log": "1\n", "same": "2\n", "gone": "3\n"})
    sandbox = Directory(work)

    def write() -> None:
        put(work, {"log": "22\n"})
        (work / "gone").unlink(missing_ok=True)

    sandbox.before_download = write
    base = await capture_base(sandbox, str(work), store=store)  # type: ignore[arg-type]
    assert set(base.items) == {b"log", b"same"}
    assert any("gone, log" in note for note in base.notes)
    assert (await capture(sandbox, base)).data == b""


async def test_a_link_in_place_of_a_fetched_file_is_not_followed(work: Path, store: BlobStore, tmp_path: Path) -> None:
    put(tmp_path, {"secret/f": "of the host\n"})
    put(work, {"d/f": "1\n"})
    sandbox = Directory(work)

    async def hostile(path: str, local: Path, **options: object) -> Any:
        os.mkdir(local)
        os.symlink(tmp_path / "secret", local / "d")
        return SimpleNamespace(refused=())

    sandbox.download = hostile  # type: ignore[method-assign]
    with pytest.raises(PatchError, match="d/f could not be read"):
        await capture_base(sandbox, str(work), store=store)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", [b"../x", b"a//b", b"/etc/passwd", b"a/./b", b"a\0b", b""])
async def test_an_impossible_path_in_a_listing_is_refused(work: Path, store: BlobStore, path: bytes) -> None:
    sandbox = Directory(work)

    async def hostile(*_: object, **__: object) -> dict[bytes, Any]:
        return {path: SimpleNamespace(kind="file", executable=False, size=1, blob="0" * 40, target=b"")}

    sandbox.tree = hostile  # type: ignore[method-assign]
    with pytest.raises(PatchError, match="cannot be"):
        await capture_base(sandbox, str(work), store=store)  # type: ignore[arg-type]


async def test_a_missing_directory_is_an_error(work: Path, store: BlobStore) -> None:
    with pytest.raises(PatchError, match="cannot be listed"):
        await capture_base(Directory(work), str(work / "none"), store=store)  # type: ignore[arg-type]


async def test_pruning_under_a_running_trial_is_told(work: Path, store: BlobStore) -> None:
    put(work, {"a": "1\n", "b": "2\n"})
    sandbox, base, _ = await record(work, store)
    assert store.prune(unused_for_s=3600).files == 0
    assert store.prune(unused_for_s=-1).files == 2
    put(work, {"a": "2\n"})
    with pytest.raises(PatchError, match="contents of a are no longer in the cache"):
        await capture(sandbox, base)


async def test_a_full_disk_of_the_host_is_an_error(
    work: Path, store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(work, {"a": "1\n"})
    sandbox, base, _ = await record(work, store)
    put(work, {"a": "2\n"})

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("agentix.patch.objects.tempfile.mkstemp", full)
    with pytest.raises(PatchError, match="No space left"):
        await capture(sandbox, base)
