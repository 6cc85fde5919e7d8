"""A copy of a tree holds files and directories only, without secrets in them and in their names."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from agentix.redaction import RedactionRules, Redactor, Secrets, scan

VALUE = "canary-0123456789"
REDACTOR = Redactor(Secrets([VALUE]))


def listed(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*"))


def test_names_are_masked_and_none_is_lost(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / f"d-{VALUE}" / "deep").mkdir(parents=True)
    (source / f"d-{VALUE}" / "deep" / f"{VALUE}.txt").write_text("one")
    (source / "b.redacted.txt").write_text("two")
    (source / f"b.{VALUE}.txt").write_text("three")
    (source / f"b.{VALUE.encode().hex()}.txt").write_text("four")
    result = REDACTOR.tree(source, tmp_path / "copy")
    copy = tmp_path / "copy"
    assert listed(copy) == [
        "b.redacted-2.txt",
        "b.redacted-3.txt",
        "b.redacted.txt",
        "d-redacted",
        "d-redacted/deep",
        "d-redacted/deep/redacted.txt",
    ]
    assert sorted(path.read_text() for path in copy.rglob("*.txt")) == ["four", "one", "three", "two"]
    assert (copy / "b.redacted.txt").read_text() == "two"
    assert result.files == 4
    assert set(result.renamed.values()) >= {"d-redacted", "d-redacted/deep/redacted.txt"}
    assert VALUE not in str(result)


def test_a_value_that_a_path_spells_is_taken_out_of_its_last_part(tmp_path: Path) -> None:
    secrets = Secrets(["AKx/9zT/canary+0"])
    place = tmp_path / "source" / "cache" / "AKx" / "9zT"
    (place / "canary+0").mkdir(parents=True)
    (place / "canary+0" / "f").write_text("one")
    (place / "redacted").write_text("two")
    (place / "canary").write_text("three")
    assert [(found.path, found.where) for found in scan(tmp_path / "source", secrets)] == [("cache/***", "path")]
    result = Redactor(secrets).tree(tmp_path / "source", tmp_path / "copy")
    assert [name for name in listed(tmp_path / "copy") if name.count("/") > 2] == [
        "cache/AKx/9zT/canary", "cache/AKx/9zT/redacted", "cache/AKx/9zT/redacted-2", "cache/AKx/9zT/redacted-2/f"
    ]  # fmt: skip
    assert result.renamed == {"cache/***": "cache/AKx/9zT/redacted-2"}
    assert scan(tmp_path / "copy", secrets) == []


def test_a_name_of_many_short_values_does_not_grow_too_long(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    for number in range(2):
        (tmp_path / "source" / f"{number}_{'_'.join(['10.1.1.1'] * 28)}"[:255]).write_text("x")
    Redactor(Secrets(), rules=RedactionRules(ips_in_logs=True)).tree(tmp_path / "source", tmp_path / "copy")
    assert listed(tmp_path / "copy") == ["redacted", "redacted-2"]


def test_whatever_is_no_file_is_left_out_and_told(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("of the host")
    source = tmp_path / "source"
    source.mkdir()
    (source / "link").symlink_to("/etc/passwd")
    (source / "linked").symlink_to(outside)
    (source / "dangling").symlink_to("nowhere")
    (source / f"to-{VALUE}").symlink_to("/")
    os.mkfifo(source / "pipe")
    (source / "file\nwith a break").write_text("kept")
    os.link(source / "file\nwith a break", source / "hard")
    (source / "Twin").write_text("1")
    (source / "twin").write_text("2")
    (source / "suid").write_text("x")
    (source / "suid").chmod(0o6755)
    (source / "empty").mkdir(mode=0o700)
    (source / os.fsdecode(b"caf\xe9")).write_text("3")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(source / "socket"))
        result = REDACTOR.tree(source, tmp_path / "copy")
    copy = tmp_path / "copy"
    assert listed(copy) == sorted(
        ["Twin", "twin", os.fsdecode(b"caf\xe9"), "empty", "file\nwith a break", "hard", "suid"]
    )
    assert result.left_out == {
        "link": "link",
        "linked": "link",
        "dangling": "link",
        "to-***": "link",
        "pipe": "pipe",
        "socket": "socket",
    }
    assert (copy / "suid").stat().st_mode & 0o7777 == 0o755
    assert (copy / "empty").stat().st_mode & 0o7777 == 0o755
    assert all(path.stat().st_nlink == 1 for path in copy.iterdir() if path.is_file())
    assert result.refused == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    try:
        os.mknod(tmp_path / "source" / "zero", 0o20666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("devices cannot be made here")
    assert REDACTOR.tree(tmp_path / "source", tmp_path / "copy").left_out == {"zero": "device"}


def test_a_large_sparse_file_is_refused_unread(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    with (tmp_path / "source" / "huge").open("wb") as file:
        file.truncate(1 << 30)
    (tmp_path / "source" / "a").write_text("kept")
    result = REDACTOR.tree(tmp_path / "source", tmp_path / "copy")
    assert "sparse" in result.refused["huge"]
    assert listed(tmp_path / "copy") == ["a"]


def test_one_that_cannot_be_published_does_not_keep_the_others(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "bin").write_bytes(b"\0" + VALUE.encode())
    (source / "sub" / "log").write_text(f"x {VALUE}")
    (source / "steps").mkdir()
    (source / "steps" / "log").write_text("x")
    (source / "sub" / "steps").write_text("y")
    result = REDACTOR.tree(source, tmp_path / "copy", skip=["steps"])
    assert listed(tmp_path / "copy") == ["sub", "sub/log", "sub/steps"]
    assert list(result.refused) == ["sub/bin"]
    assert result.counts == {"known_value": 1}
    assert (result.files, result.bytes) == (2, 6)


def test_a_copy_goes_where_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "left").write_text("")
    with pytest.raises(FileExistsError, match="is not empty"):
        REDACTOR.tree(tmp_path / "source", tmp_path / "copy")
    with pytest.raises(NotADirectoryError):
        REDACTOR.tree(tmp_path / "copy" / "left", tmp_path / "new")
