"""What would go, and which limits of the hub that breaches, before a byte is sent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.plugins.transports.hf import HfTransport
from agentix.plugins.transports.hf.plan import MAX_FILE_BYTES, Item, parts, plan


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def test_everything_is_listed_with_its_size(tmp_path: Path) -> None:
    touch(tmp_path, "b/empty", ".hidden")
    (tmp_path / "a").write_bytes(b"12345")
    found = plan(tmp_path)
    assert [(item.path, item.bytes) for item in found.items] == [(".hidden", 0), ("a", 5), ("b/empty", 0)]
    assert (found.bytes, found.breaches) == (5, ())


def test_one_file_goes_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(b"123")
    assert plan(tmp_path / "x.tar").items == (Item(path="x.tar", bytes=3),)


def test_a_folder_with_too_many_entries_is_told_before_anything_goes_and_a_sharded_one_is_fine(tmp_path: Path) -> None:
    touch(tmp_path, *(f"flat/{n}.json" for n in range(10_001)))
    [breach] = plan(tmp_path).breaches
    assert "10,001 entries in the folder flat" in breach
    sharded = tmp_path / "sharded"
    touch(sharded, *(f"{n // 1000:02}/{n}.json" for n in range(12_000)))
    assert plan(sharded).breaches == ()


def test_folders_count_as_entries_too_and_all_files_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentix.plugins.transports.hf.plan.MAX_ENTRIES", 100)
    monkeypatch.setattr("agentix.plugins.transports.hf.plan.MAX_FILES", 200)
    touch(tmp_path, *(f"{n}/{m}" for n in range(101) for m in range(2)))
    breaches = plan(tmp_path).breaches
    assert [breach.partition(",")[0] for breach in breaches] == ["202 files", "101 entries in the folder ."]


def test_a_file_of_6_gb_goes_and_one_above_the_limit_does_not(tmp_path: Path) -> None:
    sparse(tmp_path / "six.bin", 6 * 1000**3)
    assert plan(tmp_path).breaches == ()
    sparse(tmp_path / "huge.bin", MAX_FILE_BYTES + 1)
    [breach] = plan(tmp_path).breaches
    assert breach.startswith("huge.bin has 50,000,000,001 bytes")


def test_all_breaches_are_told_at_once(tmp_path: Path) -> None:
    touch(tmp_path, ".git/config", "deep/.cache/x", "ok")
    (tmp_path / "link").symlink_to("ok")
    (tmp_path / "folder-link").symlink_to("deep")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "new\nline").touch()
    (tmp_path / os.fsdecode(b"b\xff")).touch()
    sparse(tmp_path / "huge.bin", MAX_FILE_BYTES + 1)
    found = plan(tmp_path)
    told = "\n".join(found.breaches)
    for word in (
        ".git:",
        "deep/.cache:",
        "'link'",
        "'folder-link'",
        "'pipe'",
        r"'new\nline'",
        r"'b\udcff'",
        "huge.bin",
    ):
        assert word in told, word
    assert len(found.breaches) == 8


@pytest.mark.parametrize(("name", "told"), [("empty", "there is nothing to ship"), ("missing", "missing is neither")])
def test_nothing_is_not_shipped(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "empty" / "folder").mkdir(parents=True)
    [breach] = plan(tmp_path / name).breaches
    assert told in breach


@given(st.lists(st.sampled_from([0, 1, 9_999_999, 10_000_001, 6 * 1000**3]), max_size=2500))
def test_parts_are_everything_in_order_and_none_is_too_much_for_one_commit(sizes: list[int]) -> None:
    items = [Item(path=f"{n:05}", bytes=size) for n, size in enumerate(sizes)]
    found = parts(items)
    assert [item for part in found for item in part] == items
    for part in found:
        assert 0 < len(part) <= 1000
        assert sum(item.bytes for item in part if item.bytes <= 10_000_000) <= 100_000_000
        assert sum(item.bytes > 10_000_000 for item in part) <= 100


def test_twelve_thousand_small_files_are_twelve_commits() -> None:
    assert len(parts([Item(path=f"{n:05}", bytes=100) for n in range(12_000)])) == 12


def test_more_trials_than_a_folder_takes_are_told_ahead() -> None:
    transport = HfTransport()
    inputs = transport.Inputs(dest="org/name")
    assert list(transport.foresee(inputs, trials=10_000)) == []
    (told,) = transport.foresee(inputs, trials=10_001)
    assert "10,001 trials go into one folder" in told
    assert 'path_in_repo: "{{.Experiment}}/{{.RunID}}/{{.Case}}/{{.TrialID}}"' in told
    assert list(transport.foresee(transport.Inputs(dest="org/name", path_in_repo="x"), trials=10_001)) == []
