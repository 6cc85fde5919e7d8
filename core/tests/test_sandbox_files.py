# ruff: noqa: ASYNC221, ASYNC240
from __future__ import annotations

import errno
import hashlib
import os
import resource
import stat
import subprocess
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentix.models import SandboxConfig
from agentix.sandbox import HostProcessProvider, Sandbox, TreeEntry

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("size", [0, 1, 65_536, 3_000_001])
async def test_a_file_comes_back_as_it_was_written(sandbox: Sandbox, size: int) -> None:
    data = os.urandom(size)
    await sandbox.write_file("deep/er/file", data)
    assert await sandbox.read_file("deep/er/file") == data
    assert await sandbox.read_file(f"{sandbox.workdir}/deep/er/file".encode()) == data


async def test_modes_are_set_whatever_the_file_had(sandbox: Sandbox) -> None:
    await sandbox.write_file("script", b"long content", mode=0o755)
    await sandbox.write_file("script", b"short", mode=0o600)
    assert (await sandbox.exec("stat -c %a script; cat script")).stdout == b"600\nshort"


async def test_a_name_may_hold_any_byte(sandbox: Sandbox) -> None:
    name = b"caf\xe9 \n'\"\xff"
    await sandbox.write_file(name, b"x")
    assert (await sandbox.exec("ls -1 --quoting-style=literal")).stdout == name + b"\n"
    assert list(await sandbox.tree(".")) == [name]


async def test_file_errors_are_those_of_the_system(sandbox: Sandbox) -> None:
    await sandbox.write_file("file", b"")
    with pytest.raises(FileNotFoundError) as missing:
        await sandbox.read_file("nowhere")
    assert missing.value.filename == f"{sandbox.workdir}/nowhere"
    with pytest.raises(NotADirectoryError):
        await sandbox.read_file("file/below")
    with pytest.raises(IsADirectoryError):
        await sandbox.read_file(".")
    with pytest.raises(IsADirectoryError):
        await sandbox.write_file("/tmp", b"")
    with pytest.raises(ValueError, match="NUL"):
        await sandbox.read_file("a\0b")


@pytest.mark.parametrize("special", ["pipe", "/dev/zero"])
async def test_what_would_block_or_never_end_is_refused(sandbox: Sandbox, special: str) -> None:
    await sandbox.exec("mkfifo pipe")
    with pytest.raises(OSError, match="not a regular file"), anyio.fail_after(60):
        await sandbox.read_file(special)
    with pytest.raises(OSError), anyio.fail_after(60):
        await sandbox.write_file("pipe", b"x")


async def test_a_file_over_the_limit_is_an_error_and_not_a_part_of_it(sandbox: Sandbox) -> None:
    await sandbox.write_file("file", b"12345")
    assert await sandbox.read_file("file", limit=5) == b"12345"
    with pytest.raises(OSError, match="larger than the limit of 4 bytes") as error:
        await sandbox.read_file("file", limit=4)
    assert error.value.errno == errno.EFBIG


async def test_a_file_without_a_size_is_read_to_its_end(sandbox: Sandbox) -> None:
    assert b"Linux" in await sandbox.read_file("/proc/version")


async def test_remove_takes_trees_links_and_nothing(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("x")
    await sandbox.exec(f"mkdir -p a/b/c && touch a/b/f && ln -s {tmp_path} a/b/link && ln -s {tmp_path} link")
    for path in ("a", "link", "nowhere", "nowhere/below"):
        await sandbox.remove(path)
        assert not await sandbox.exists(path)
    assert (tmp_path / "kept").exists()


async def test_directories_are_made_with_their_parents(sandbox: Sandbox) -> None:
    await sandbox.make_dirs("a/b/c", mode=0o700)
    await sandbox.make_dirs("a/b/c", mode=0o755)
    assert (await sandbox.exec("stat -c %a a a/b/c")).stdout == b"755\n700\n"
    await sandbox.write_file("file", b"")
    with pytest.raises(OSError):
        await sandbox.make_dirs("file/below")


async def test_a_dangling_link_does_not_exist(sandbox: Sandbox) -> None:
    await sandbox.exec("ln -s nowhere link")
    assert not await sandbox.exists("link")
    assert await sandbox.exists(".")


@pytest.fixture
def local(tmp_path: Path) -> Path:
    root = tmp_path / "local"
    (root / "bin").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "bin/run").write_bytes(b"#!/bin/sh\n")
    (root / "bin/run").chmod(0o750)
    (root / ("n" * 120)).write_bytes(b"long name")
    (root / os.fsdecode(b"caf\xe9")).write_bytes(os.urandom(300_000))
    (root / "link").symlink_to("bin/run")
    (root / "cache").mkdir()
    (root / "cache/x.pyc").write_bytes(b"")
    return root


def listing(root: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(root))] = str(path.readlink())
        elif path.is_file():
            found[str(path.relative_to(root))] = path.read_bytes(), stat.S_IMODE(path.stat().st_mode)
        else:
            found[str(path.relative_to(root))] = None
    return found


async def test_a_tree_goes_in_and_comes_out_as_it_was(sandbox: Sandbox, local: Path, tmp_path: Path) -> None:
    await sandbox.upload(local, "there/below")
    report = await sandbox.download("there/below", tmp_path / "back")
    assert listing(tmp_path / "back") == listing(local)
    assert (report.entries, report.refused) == (len(listing(local)), ())
    assert report.bytes == sum(len(entry[0]) for entry in listing(local).values() if isinstance(entry, tuple))


async def test_an_empty_directory_goes_in_and_comes_out(sandbox: Sandbox, local: Path, tmp_path: Path) -> None:
    await sandbox.upload(local / "empty", "there")
    assert (await sandbox.exec("ls -A there | wc -l")).text.strip() == "0"
    await sandbox.download("there", tmp_path / "back")
    assert list((tmp_path / "back").iterdir()) == []


async def test_a_file_goes_in_and_comes_out_under_its_new_name(sandbox: Sandbox, local: Path, tmp_path: Path) -> None:
    await sandbox.upload(local / "bin/run", "deep/script")
    assert (await sandbox.exec("stat -c %a deep/script")).stdout == b"750\n"
    report = await sandbox.download("deep/script", tmp_path / "new/name")
    assert (tmp_path / "new/name").read_bytes() == b"#!/bin/sh\n"
    assert (report.entries, report.bytes) == (1, 10)


async def test_what_is_excluded_stays_behind(sandbox: Sandbox, local: Path) -> None:
    await sandbox.upload(local, "there", exclude=["*.pyc", "bin/run", "empty"])
    names = set(await sandbox.tree("there"))
    assert b"cache/x.pyc" not in names
    assert b"bin/run" not in names
    assert not await sandbox.exists("there/empty")
    assert b"link" in names


async def test_an_upload_goes_over_what_is_there(sandbox: Sandbox, local: Path) -> None:
    await sandbox.exec("mkdir -p there/bin && echo old > there/kept && ln -s /etc/passwd there/bin/run")
    before = Path("/etc/passwd").read_bytes()
    await sandbox.upload(local, "there")
    assert await sandbox.read_file("there/bin/run") == b"#!/bin/sh\n"
    assert await sandbox.read_file("there/kept") == b"old\n"
    assert Path("/etc/passwd").read_bytes() == before


async def test_what_cannot_be_uploaded_is_named(sandbox: Sandbox, local: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await sandbox.upload(tmp_path / "missing", "there")
    os.mkfifo(local / "pipe")
    with pytest.raises(OSError, match="pipe: a named pipe is not copied"):
        await sandbox.upload(local, "there")
    with pytest.raises(IsADirectoryError):
        await sandbox.upload(local / "bin/run", "there")


async def test_a_download_of_nothing_says_so(sandbox: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        await sandbox.download("nowhere", tmp_path / "back")
    assert missing.value.filename == f"{sandbox.workdir}/nowhere"
    assert not (tmp_path / "back").exists()


async def test_chosen_members_are_all_that_comes(sandbox: Sandbox, local: Path, tmp_path: Path) -> None:
    await sandbox.upload(local, "there")
    report = await sandbox.download("there", tmp_path / "back", members=[b"bin/run", b"caf\xe9", b"missing"])
    assert set(listing(tmp_path / "back")) == {"bin", "bin/run", os.fsdecode(b"caf\xe9")}
    assert [(refusal.path, refusal.reason) for refusal in report.refused] == [(b"missing", "No such file or directory")]


HOSTILE = r"""
set -e
mkdir -p art/real && cd art
ln -s /etc absolute
ln -s /etc through
ln -s ../../outside climbs
ln -s real inside
ln real/../real/hard hard 2>/dev/null || { echo h > real/hard; ln real/hard hard; }
mkfifo pipe
printf x > "$(printf 'new\nline')"
printf x > '..evil..'
mkdir -p case; printf a > case/Name; printf b > case/name
printf s > setuid; chmod 4755 setuid
truncate -s 1T sparse
printf good > good
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")' 2>/dev/null || true
mknod device c 1 3 2>/dev/null || true
"""


async def test_hostile_artifacts_are_refused_one_by_one_and_the_rest_is_collected(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    assert (await sandbox.exec(HOSTILE)).exit_code == 0
    with anyio.fail_after(60):
        report = await sandbox.download("art", tmp_path / "out")
    refused = {refusal.path: refusal.reason for refusal in report.refused}
    assert {b"absolute", b"through", b"climbs", b"pipe", b"sparse"} <= set(refused)
    assert set(refused) <= {b"absolute", b"through", b"climbs", b"pipe", b"sparse", b"socket", b"device"}
    out = tmp_path / "out"
    assert (out / "good").read_bytes() == b"good"
    assert (out / "new\nline").read_bytes() == b"x"
    assert (out / "..evil..").read_bytes() == b"x"
    assert ((out / "case/Name").read_bytes(), (out / "case/name").read_bytes()) == (b"a", b"b")
    assert stat.S_IMODE((out / "setuid").stat().st_mode) == 0o755
    assert (out / "hard").stat().st_nlink == 1
    assert os.readlink(out / "inside") == "real"
    assert set(tmp_path.iterdir()) == {out}


async def test_many_files_stop_at_the_limit_of_entries(sandbox: Sandbox, tmp_path: Path) -> None:
    await sandbox.exec("mkdir many && cd many && seq 1 3000 | xargs touch")
    report = await sandbox.download("many", tmp_path / "out", max_entries=1000)
    assert (report.entries, len(list((tmp_path / "out").iterdir()))) == (1000, 1000)
    assert report.refused[0].reason == "there are more than 1000 entries"
    assert report.refused[-1].reason == "1000 more were left out"


async def test_bytes_stop_at_the_limit(sandbox: Sandbox, tmp_path: Path) -> None:
    await sandbox.exec("mkdir d && head -c 600 /dev/zero > d/a && head -c 600 /dev/zero > d/b && echo > d/c")
    report = await sandbox.download("d", tmp_path / "out", max_bytes=1000)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a", "c"]
    assert [refusal.path for refusal in report.refused] == [b"b"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
async def test_what_is_written_belongs_to_the_user_that_was_named(sandbox: Sandbox, local: Path) -> None:
    await sandbox.write_file("new/file", b"", user="nobody")
    await sandbox.make_dirs("made/dir", user="65534:12")
    await sandbox.upload(local, "up/loaded", user="nobody")
    result = await sandbox.exec("stat -c %u:%g new new/file made/dir up/loaded up/loaded/bin/run up/loaded/link")
    assert result.text.split() == ["65534:65534", "65534:65534", "65534:12", *["65534:65534"] * 3]


async def test_a_tree_is_listed_with_the_ids_that_git_gives(sandbox: Sandbox, local: Path) -> None:
    (local / ".git").mkdir()
    (local / ".git/config").write_text("")
    (local / "bin/.git").write_text("gitdir: elsewhere")
    await sandbox.upload(local, "there")
    await sandbox.exec("mkfifo there/pipe")
    tree = await sandbox.tree("there")
    assert set(tree) == {b"bin/run", b"link", b"n" * 120, b"caf\xe9", b"cache/x.pyc", b"pipe"}
    for name in (b"bin/run", b"caf\xe9", b"cache/x.pyc"):
        path = os.path.join(os.fsencode(local), name)
        blob = subprocess.run(["git", "hash-object", "--no-filters", path], capture_output=True, check=True).stdout
        assert tree[name].blob == blob.decode().strip()
        assert tree[name].executable == (name == b"bin/run")
    target = hashlib.sha1(b"blob 7\0bin/run").hexdigest()
    assert tree[b"link"] == TreeEntry("link", False, 7, target, b"bin/run")
    assert tree[b"pipe"] == TreeEntry("other", False, 0, "")


async def test_what_is_excluded_is_not_listed(sandbox: Sandbox, local: Path) -> None:
    await sandbox.upload(local, "there")
    tree = await sandbox.tree("there", exclude=["bin", "cache/x.pyc"])
    assert set(tree) == {b"link", b"n" * 120, b"caf\xe9"}


async def test_a_tree_over_a_limit_is_an_error(sandbox: Sandbox) -> None:
    await sandbox.exec("mkdir d && cd d && seq 1 100 | xargs touch && echo hello > file")
    assert len(await sandbox.tree("d", max_entries=101)) == 101
    with pytest.raises(OSError, match="more than 100 entries"):
        await sandbox.tree("d", max_entries=100)
    with pytest.raises(OSError, match="larger than the limit"):
        await sandbox.tree("d", max_bytes=5)
    with pytest.raises(FileNotFoundError):
        await sandbox.tree("nowhere")


async def test_a_large_tree_is_listed_whole(sandbox: Sandbox) -> None:
    await sandbox.exec("mkdir -p d/$(printf 'x%.0s' $(seq 200)) && cd d/x* && seq 1 5000 | xargs touch")
    assert len(await sandbox.tree("d")) == 5000


async def test_a_huge_file_costs_no_memory(tmp_path: Path) -> None:
    size = 400 << 20
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with HostProcessProvider().session(SandboxConfig()) as sandbox:
        await sandbox.upload(tmp_path / "huge", "huge")
        await sandbox.download("huge", tmp_path / "back")
        peak = await sandbox.exec("grep VmHWM /proc/$(cut -d' ' -f4 /proc/$PPID/stat)/status")
    assert (tmp_path / "back").stat().st_size == size
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000
    assert int(peak.text.split()[1]) < 60_000


async def test_a_huge_transfer_does_not_starve_small_calls(sandbox: Sandbox, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(200 << 20)
    done = []

    async def upload() -> None:
        await sandbox.upload(tmp_path / "huge", "huge")
        await sandbox.download("huge", tmp_path / "back")
        done.append(True)

    small = 0
    async with anyio.create_task_group() as group:
        group.start_soon(upload)
        while not done:
            await sandbox.exec("true")
            small += 1
    assert small >= 5


@given(st.dictionaries(st.binary(min_size=1, max_size=30), st.binary(max_size=200), max_size=5))
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_any_tree_survives_the_way_in_and_out(
    tmp_path_factory: pytest.TempPathFactory, files: dict[bytes, bytes]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    (root / "in").mkdir()
    for name, content in files.items():
        plain = name.replace(b"/", b"_").replace(b"\0", b"_")
        if plain not in (b".", b".."):
            (root / "in" / os.fsdecode(plain)).write_bytes(content)

    async def there_and_back() -> None:
        async with HostProcessProvider().session(SandboxConfig()) as sandbox:
            await sandbox.upload(root / "in", "x")
            await sandbox.download("x", root / "out")

    anyio.run(there_and_back)
    assert listing(root / "out") == listing(root / "in")
