"""Snapshots: named by content, whole or not there at all, and deaf to edits."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentix.api import Case, DatasetError, HostError, content_hash
from agentix.plugins.experiments.cases import Intact, copying, snapshots, with_case
from agentix.plugins.experiments.cases import intact as intact_module
from agentix.plugins.experiments.cases.copying import copy_tree
from agentix.plugins.experiments.cases.snapshots import is_intact, take_snapshot
from agentix.plugins.experiments.cases.workspace import workspace


def take(source: Path, kept: Path) -> tuple[str, Path]:
    with workspace(kept) as work:
        return take_snapshot(source, kept, work=work)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "case"
    (path / "environment").mkdir(parents=True)
    (path / "task.toml").write_text("x = 1\n")
    (path / "environment" / "run.sh").write_text("#!/bin/sh\n")
    (path / "environment" / "run.sh").chmod(0o750)
    (path / ".git").mkdir()
    (path / ".git" / "HEAD").write_text("not part of it")
    return path


def test_a_snapshot_is_named_by_its_content_and_has_it(source: Path, tmp_path: Path) -> None:
    digest, place = take(source, tmp_path / "kept")
    assert place == tmp_path / "kept" / digest
    assert digest == content_hash(source) == content_hash(place)
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [digest]
    assert not (place / ".git").exists()


def test_an_edit_afterwards_changes_nothing(source: Path, tmp_path: Path) -> None:
    digest, place = take(source, tmp_path / "kept")
    os.link(source / "task.toml", source / "hard")
    with (source / "task.toml").open("a") as file:
        file.write("edited")
    (source / "environment" / "run.sh").unlink()
    assert content_hash(place) == digest
    assert take(source, tmp_path / "kept")[0] != digest


def test_links_stay_links_and_modes_say_no_more_than_the_hash(source: Path, tmp_path: Path) -> None:
    (source / "inside").symlink_to("task.toml")
    (source / "outside").symlink_to("/etc/passwd")
    (source / "gone").symlink_to("nowhere")
    (source / "task.toml").chmod(0o600)
    _, place = take(source, tmp_path / "kept")
    assert {name: os.readlink(place / name) for name in ("inside", "outside", "gone")} == {
        "inside": "task.toml",
        "outside": "/etc/passwd",
        "gone": "nowhere",
    }
    assert (place / "task.toml").stat().st_mode & 0o777 == 0o644
    assert (place / "environment" / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (place / "environment").stat().st_mode & 0o777 == 0o755


NAMES = st.binary(min_size=1, max_size=20).filter(
    lambda name: not set(name) & {0, 0x2F} and name not in (b".", b"..", b".git")
)


@settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(st.dictionaries(NAMES, st.tuples(st.binary(max_size=50), st.booleans()), max_size=6))
def test_any_name_and_any_content_is_copied(tmp_path: Path, files: dict[bytes, tuple[bytes, bool]]) -> None:
    root = tmp_path / "odd"
    shutil.rmtree(root, ignore_errors=True)
    (root / "below").mkdir(parents=True)
    for name, (content, executable) in files.items():
        for parent in (root, root / "below"):
            path = os.path.join(os.fsencode(parent), name)
            if not os.path.lexists(path):
                with open(path, "wb") as file:
                    file.write(content)
                os.chmod(path, 0o700 if executable else 0o600)
    digest, place = take(root, tmp_path / "kept")
    assert content_hash(place) == digest == content_hash(root)


def test_a_pipe_is_no_content(source: Path, tmp_path: Path) -> None:
    os.mkfifo(source / "pipe")
    with pytest.raises(DatasetError, match="neither a file, a link nor a directory"):
        take(source, tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []


def test_an_edit_while_it_is_copied_is_noticed_and_the_copy_made_again(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edits = iter(["one", "two"])

    def edited(here: Path, there: Path) -> None:
        copy_tree(here, there)
        text = next(edits, None)
        if text is not None:
            (there / "task.toml").write_text(text)

    monkeypatch.setattr(snapshots, "copy_tree", edited)
    digest, place = take(source, tmp_path / "kept")
    assert digest == content_hash(source) == content_hash(place)


def test_a_case_that_never_holds_still_is_refused(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = iter(range(100))

    def edited(here: Path, there: Path) -> None:
        (here / "task.toml").write_text(str(next(count)))
        (here / f"new-{next(count)}").write_text("")
        copy_tree(here, there)

    monkeypatch.setattr(snapshots, "copy_tree", edited)
    with pytest.raises(DatasetError, match="changes while it is read"):
        take(source, tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_damaged_snapshot_is_made_again(source: Path, tmp_path: Path) -> None:
    digest, place = take(source, tmp_path / "kept")
    (place / "task.toml").write_text("damaged")
    assert take(source, tmp_path / "kept") == (digest, place)
    assert content_hash(place) == digest


def test_many_at_once_make_one_snapshot(source: Path, tmp_path: Path) -> None:
    for number in range(200):
        (source / f"file-{number}").write_text(str(number))
    with ThreadPoolExecutor(8) as pool:
        found = {future.result() for future in [pool.submit(take, source, tmp_path / "kept") for _ in range(24)]}
    assert len(found) == 1
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [next(iter(found))[0]]


KILLED = """
import os, signal, sys
from pathlib import Path
from agentix.plugins.experiments.cases import copying
from agentix.plugins.experiments.cases.snapshots import take_snapshot
from agentix.plugins.experiments.cases.workspace import workspace
left = int(sys.argv[3])
original = copying._copy_file
def counting(source, target):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    original(source, target)
copying._copy_file = counting
with workspace(Path(sys.argv[2])) as work:
    take_snapshot(Path(sys.argv[1]), Path(sys.argv[2]), work=work)
"""


@pytest.mark.parametrize("files", [0, 1])
def test_after_a_kill_half_way_there_is_no_half_snapshot_and_the_next_one_cleans_up(
    source: Path, tmp_path: Path, files: int
) -> None:
    kept = tmp_path / "kept"
    done = subprocess.run([sys.executable, "-c", KILLED, source, kept, str(files)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [path.name[:9] for path in kept.iterdir()] == [".partial-"]
    digest, _ = take(source, kept)
    assert [path.name for path in kept.iterdir()] == [digest]


def test_what_another_process_is_working_on_is_left_alone(tmp_path: Path) -> None:
    with workspace(tmp_path) as first:
        (first / "file").write_text("mine")
        with workspace(tmp_path) as second:
            assert second != first
        assert (first / "file").read_text() == "mine"
    assert list(tmp_path.iterdir()) == []


def test_many_processes_take_nothing_from_each_other(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from agentix.plugins.experiments.cases.workspace import workspace\n"
        "for _ in range(200):\n"
        "    with workspace(Path(sys.argv[1])) as work:\n"
        "        (work / 'file').write_text('x')\n"
        "        assert (work / 'file').read_text() == 'x'\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, tmp_path / "kept"]) for _ in range(6)]
    assert [process.wait() for process in running] == [0] * 6
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_full_disk_is_one_error_and_leaves_nothing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(here: bytes, there: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", os.fsdecode(there))

    monkeypatch.setattr(copying, "_copy_file", full)
    with pytest.raises(HostError, match="no space left"):
        take(source, tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []


FULL = """
import sys
from pathlib import Path
from agentix.api import HostError
from agentix.plugins.experiments.cases.snapshots import take_snapshot
from agentix.plugins.experiments.cases.workspace import workspace
kept = Path(sys.argv[2])
try:
    with workspace(kept) as work:
        take_snapshot(Path(sys.argv[1]), kept, work=work)
except HostError as error:
    print(error.message, list(kept.iterdir()))
"""


@pytest.mark.real
def test_a_disk_that_is_really_full(source: Path, tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs user namespaces")
    (source / "big").write_bytes(os.urandom(2 << 20))
    kept = tmp_path / "kept"
    kept.mkdir()
    script = 'mount -t tmpfs -o size=1m none "$3" && exec "$0" -c "$1" "$2" "$3"'
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script, sys.executable, FULL, source, kept],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "no space left" in done.stdout
    assert done.stdout.rstrip().endswith("[]")


def test_anyone_who_may_make_a_snapshot_may_delete_it(source: Path, tmp_path: Path) -> None:
    (source / "environment").chmod(0o555)
    (source / "task.toml").chmod(0o444)
    _, place = take(source, tmp_path / "kept")
    drop = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    if drop:
        for path in [tmp_path / "kept", *(tmp_path / "kept").rglob("*")]:
            os.chown(path, 65534, -1)
        for parent in (tmp_path, *tmp_path.parents):
            if parent == Path(tmp_path.anchor):
                break
            if not parent.stat().st_mode & 0o001 and parent.stat().st_uid == 0:
                parent.chmod(parent.stat().st_mode | 0o011)
    subprocess.run([*drop, "rm", "-r", place], check=True, stdin=subprocess.DEVNULL)
    assert not place.exists()


@pytest.mark.anyio
async def test_a_repaired_case_is_another_content_under_the_same_name(source: Path, tmp_path: Path) -> None:
    case = Case(name="c", label="cases/c", source="local", dataset="harbor", instance={"instance_id": "c"})
    first = await with_case(case, source, snapshots=tmp_path / "kept")
    (source / "task.toml").write_text("repaired")
    second = await with_case(first, source, snapshots=tmp_path / "kept")
    assert first.sha256 != second.sha256
    assert (second.name, second.instance["instance_id"]) == ("c", "c")
    assert second.instance["path"] == second.options["path"] == str(second.directory)
    assert await is_intact(first)
    assert await is_intact(second)
    assert second.directory is not None
    (second.directory / "more").write_text("")
    assert not await is_intact(second)


class Times:
    """The clock, as far as `Intact` looks at it."""

    def __init__(self, ahead_s: int) -> None:
        self.ahead_ns = ahead_s * 10**9

    def time_ns(self) -> int:
        return time.time_ns() + self.ahead_ns


def next_tick(directory: Path) -> None:
    """Wait until the file system gives another time to what is changed."""
    probe = directory / "probe"
    probe.write_text("")
    before = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == before:
        probe.write_text("")


@pytest.mark.anyio
async def test_content_is_read_again_only_where_the_file_system_says_that_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intact_module, "time", Times(ahead_s=3600))
    place = tmp_path / "snapshot"
    place.mkdir()
    (place / "task.toml").write_text("a")
    case = Case(
        name="a",
        label="a",
        source="local",
        dataset="harbor",
        instance={},
        sha256=content_hash(place),
        directory=place,
    )
    intact = Intact()
    assert await intact.check(case)
    with monkeypatch.context() as patched:
        patched.setattr(snapshots, "content_hash", lambda _: pytest.fail("read again"))
        assert await intact.check(case)
    kept = (place / "task.toml").stat()
    next_tick(tmp_path)
    (place / "task.toml").write_text("b")
    os.utime(place / "task.toml", ns=(kept.st_atime_ns, kept.st_mtime_ns))
    assert not await intact.check(case)
    (place / "task.toml").write_text("a")
    assert await intact.check(case)
    shutil.rmtree(place)
    assert not await intact.check(case)


@pytest.mark.anyio
@pytest.mark.parametrize("ahead_s", [0, -3600])
async def test_what_has_just_changed_is_read_again_since_a_write_in_the_same_moment_would_not_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_s: int
) -> None:
    monkeypatch.setattr(intact_module, "time", Times(ahead_s=ahead_s))
    place = tmp_path / "snapshot"
    place.mkdir()
    (place / "task.toml").write_text("a")
    case = Case(
        name="a", label="a", source="local", dataset="harbor", instance={}, sha256=content_hash(place), directory=place
    )
    intact = Intact()
    assert await intact.check(case)
    marks = intact_module._marks(place)
    monkeypatch.setattr(intact_module, "_marks", lambda _: marks)
    (place / "task.toml").write_text("b")
    assert not await intact.check(case)
