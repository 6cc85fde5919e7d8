from __future__ import annotations

import io
import os
import tarfile
import zipfile
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from agentix.api import Scope
from agentix.plugins.steps.standard.archive import Archive, ArchiveInputs
from agentix.plugins.steps.standard.archive.packing import pack
from agentix.plugins.steps.standard.archive.tar import header
from agentix.plugins.steps.standard.left_out import LeftOut, files_and_directories

FORMATS = ["tar", "tar.gz", "tar.zst", "zip"]
GIB = 1 << 30
NAMES = st.binary(min_size=1, max_size=130).filter(
    lambda name: b"/" not in name and b"\0" not in name and name not in (b".", b"..")
)


@pytest.fixture
def trial_dir(tmp_path) -> Path:
    directory = tmp_path / "staged" / "a-oracle-1"
    (directory / "out" / "deep" / "er").mkdir(parents=True)
    (directory / "empty").mkdir()
    (directory / "trial.json").write_text("{}")
    (directory / "out" / "agent.log").write_bytes(bytes(range(256)) * 9000)
    (directory / "out" / "run.sh").write_text("#!/bin/sh\n")
    (directory / "out" / "run.sh").chmod(0o700)
    (directory / "out" / ("n" * 180)).write_text("a long name")
    (directory / "out" / "deep" / "er" / "ünï\n.txt").write_text("no plain name")
    return directory


async def archived(context, trial_dir: Path, **inputs) -> Path:
    ctx = context(Scope.PER_TRIAL, trial_dir=trial_dir, subject={"trial_id": "a-oracle-1"})
    outcome = await Archive().run(ctx, ArchiveInputs(**inputs))
    ((place, path),) = outcome.publish.items()
    assert outcome.ok and place == f"archives/a-oracle-1.{inputs.get('format', 'tar')}"
    assert path.is_relative_to(ctx.work_dir)
    return path


# Python 3.11.2 does not know it yet.
SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


def unpacked(archive: Path, target: Path) -> Path:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as zipped:
            assert zipped.testzip() is None
            zipped.extractall(target)
    elif archive.suffix == ".zst":
        decompress = zstandard.ZstdDecompressor().stream_reader
        with archive.open("rb") as file, decompress(file) as data, tarfile.open(fileobj=data, mode="r|") as tar:
            tar.extractall(target, **SAFELY)
    else:
        with tarfile.open(archive) as tar:
            tar.extractall(target, **SAFELY)
    return target


def write(directory: Path, name: bytes, content: bytes) -> None:
    (directory / os.fsdecode(name)).write_bytes(content)


def tree(directory: Path) -> dict[str, bytes | None]:
    found = sorted(directory.rglob("*"))
    return {str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None for path in found}


@pytest.mark.anyio
@pytest.mark.parametrize("format", FORMATS)
async def test_it_unpacks_to_what_was_packed(context, trial_dir, tmp_path, format):
    archive = await archived(context, trial_dir, format=format)
    assert tree(unpacked(archive, tmp_path / "unpacked")) == tree(trial_dir.parent)


@pytest.mark.anyio
@pytest.mark.parametrize("format", FORMATS)
async def test_owner_time_and_mode_do_not_change_a_byte(context, trial_dir, format):
    first = (await archived(context, trial_dir, format=format)).read_bytes()
    for number, path in enumerate(sorted(trial_dir.rglob("*"))):
        os.utime(path, (number, number))
        path.chmod(path.stat().st_mode | 0o066)
    assert (await archived(context, trial_dir, format=format)).read_bytes() == first


@pytest.mark.anyio
async def test_only_whether_a_file_can_be_run_is_kept_of_its_mode(context, trial_dir):
    with tarfile.open(await archived(context, trial_dir)) as tar:
        members = {member.name: member for member in tar}
    assert {m.mode for name, m in members.items() if not m.isdir() and not name.endswith(".sh")} == {0o644}
    assert members["a-oracle-1/out/run.sh"].mode == 0o755
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members.values()} == {(0, 0, "", "", 315_532_800)}


@pytest.mark.anyio
@pytest.mark.parametrize("format", ["tar", "tar.gz", "tar.zst"])
async def test_a_tar_keeps_a_name_of_any_bytes(context, trial_dir, tmp_path, format):
    name = b"\xff\xfe\r\x1b[31m" + b"x" * 120
    write(trial_dir, name, b"here")
    archive = await archived(context, trial_dir, format=format)
    await anyio.run_process(["tar", "-xf", str(archive), "-C", str(tmp_path)])
    assert name in os.listdir(os.fsencode(tmp_path / "a-oracle-1"))


@pytest.mark.anyio
async def test_a_zip_refuses_a_name_that_it_cannot_hold_and_says_what_can(context, trial_dir):
    write(trial_dir, b"\xff", b"here")
    with pytest.raises(ValueError, match=r"cannot hold the name b'a-oracle-1/\\xff'.*format: tar"):
        await archived(context, trial_dir, format="zip")


@pytest.mark.anyio
async def test_links_and_pipes_are_left_out_and_named(context, trial_dir):
    (trial_dir / "out" / "link").symlink_to("/etc/passwd")
    os.mkfifo(trial_dir / "pipe")
    ctx = context(Scope.PER_TRIAL, trial_dir=trial_dir, subject={"trial_id": "a-oracle-1"})
    outcome = await Archive().run(ctx, ArchiveInputs())
    assert outcome.outputs["left_out"] == 2
    assert "'out/link', 'pipe'" in outcome.message
    with tarfile.open(outcome.publish["archives/a-oracle-1.tar"]) as tar:
        assert not {"a-oracle-1/out/link", "a-oracle-1/pipe"}.intersection(tar.getnames())


@pytest.mark.anyio
async def test_another_format_takes_the_place_of_the_first(context, trial_dir):
    await archived(context, trial_dir, format="tar.gz")
    archive = await archived(context, trial_dir, format="zip")
    assert [*archive.parent.iterdir()] == [archive]


@pytest.mark.anyio
async def test_what_is_cancelled_leaves_nothing_behind(context, trial_dir, monkeypatch):
    ctx = context(Scope.PER_TRIAL, trial_dir=trial_dir, subject={"trial_id": "a-oracle-1"})
    with anyio.CancelScope() as scope:
        calls, checked = count(), anyio.from_thread.check_cancelled

        def check() -> None:
            if next(calls) == 3:
                anyio.from_thread.run_sync(scope.cancel)
            checked()

        monkeypatch.setattr(anyio.from_thread, "check_cancelled", check)
        await Archive().run(ctx, ArchiveInputs())
    assert scope.cancelled_caught
    assert [path for path in ctx.work_dir.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_that_changes_while_it_is_packed_is_an_error(tmp_path, format):
    (tmp_path / "t").mkdir()
    file = tmp_path / "t" / "f"
    file.write_bytes(b"x" * 10)
    for content in (b"x" * 9, b"x" * 11):
        found = [*files_and_directories(tmp_path / "t", left_out=LeftOut())]
        file.write_bytes(content)
        with (tmp_path / "out").open("wb") as out, pytest.raises(OSError, match="changed while it was packed"):
            pack(out, tmp_path / "t", iter(found), format=format, prefix=b"t", check=lambda: None)
        file.write_bytes(b"x" * 10)


@given(size=st.integers(8 * GIB, 1 << 62), name=NAMES)
def test_a_tar_holds_a_file_of_more_than_8_gib(size, name):
    with tarfile.open(fileobj=io.BytesIO(header(name, size)), encoding="utf-8", errors="surrogateescape") as tar:
        member = tar.next()
    assert (member.size, os.fsencode(member.name)) == (size, name)


def test_a_zip_holds_a_file_of_more_than_4_gib(tmp_path):
    (tmp_path / "t").mkdir()
    with (tmp_path / "t" / "huge").open("wb") as file:
        file.truncate(4 * GIB + 1)
    with (tmp_path / "huge.zip").open("wb") as out:
        pack(
            out,
            tmp_path / "t",
            files_and_directories(tmp_path / "t", left_out=LeftOut()),
            format="zip",
            prefix=b"t",
            check=int,
        )
    with zipfile.ZipFile(tmp_path / "huge.zip") as zipped:
        assert [(info.filename, info.file_size) for info in zipped.infolist()] == [("t/huge", 4 * GIB + 1)]


@pytest.mark.parametrize("format", ["tar", "zip"])
def test_many_files_take_no_memory_to_speak_of(tmp_path, format):
    import tracemalloc

    def peak(files: int) -> int:
        top = tmp_path / str(files)
        for number in range(files):
            directory = top / str(number % 20)
            directory.mkdir(parents=True, exist_ok=True)
            (directory / str(number)).write_bytes(b"x")
        with (tmp_path / "out").open("wb") as out:
            tracemalloc.start()
            pack(
                out, top, files_and_directories(top, left_out=LeftOut()), format=format, prefix=b"t", check=lambda: None
            )
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return most

    # A zip ends in a list of all that is in it; a tar has none.
    assert peak(4000) - peak(400) < 3600 * (2000 if format == "zip" else 100)


@settings(max_examples=25, deadline=None)
@given(files=st.dictionaries(NAMES, st.binary(max_size=2000), max_size=6))
def test_whatever_is_packed_is_read_back_by_tarfile(tmp_path_factory, files):
    top = tmp_path_factory.mktemp("names")
    for name, content in files.items():
        write(top, name, content)
    target = tmp_path_factory.mktemp("out") / "t.tar"
    with target.open("wb") as out:
        pack(out, top, files_and_directories(top, left_out=LeftOut()), format="tar", prefix=b"t", check=lambda: None)
    read = {}
    with tarfile.open(target, encoding="utf-8", errors="surrogateescape") as tar:
        for member in tar:
            if member.isfile():
                read[member.name.encode("utf-8", "surrogateescape")[2:]] = tar.extractfile(member).read()
    assert read == files
    assert [*read] == sorted(files)


@pytest.mark.parametrize(
    ("scope", "given", "message"),
    [
        (Scope.PER_TRIAL, {"shard": 10}, "no meaning per_trial"),
        (Scope.PER_EXPERIMENT, {}, "shard is missing"),
        (Scope.PER_EXPERIMENT, {"shard": 10, "format": "zip"}, "use tar"),
        (Scope.PER_EXPERIMENT, {"shard": 0}, "greater than or equal to 1"),
        (Scope.PER_TRIAL, {"format": "rar"}, "'tar', 'tar.gz', 'tar.zst' or 'zip'"),
        (Scope.PER_TRIAL, {"level": 3}, "Extra inputs"),
    ],
)
def test_inputs_that_mean_nothing_are_refused_before_anything_runs(scope, given, message):
    with pytest.raises(ValidationError, match=message):
        ArchiveInputs.model_validate(given, context={"scope": scope})
