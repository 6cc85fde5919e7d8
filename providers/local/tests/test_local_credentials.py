"""A thread that takes on a sandbox's uid does so alone, and what it starts has nothing of root."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from agentix.providers.local.credentials import can_wear, wearing
from agentix.providers.local.lease import lease_folder

UID = 0x7000_1234

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not can_wear(), reason="only root takes on another uid, on a machine whose calls are known"
)


def status_of(thread: str) -> dict[str, str]:
    """The lines of a thread's status in /proc."""
    lines = Path(thread, "status").read_text(encoding="ascii", errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@needs_root
def test_a_program_started_under_a_uid_has_nothing_of_root() -> None:
    with wearing(UID):
        shown = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    status = dict(line.split(":", 1) for line in shown.splitlines())
    assert status["Uid"].split() == [str(UID)] * 4
    assert status["Gid"].split() == [str(UID)] * 4
    assert status["Groups"].split() == []
    assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapAmb")} == {0}


@needs_root
def test_other_threads_stay_what_they_are_and_the_thread_becomes_it_again() -> None:
    before = {name: status_of("/proc/self")[name] for name in ("Uid", "Gid", "Groups", "CapEff")}
    inside: dict[str, str] = {}
    after: dict[str, str] = {}

    def wear() -> None:
        with wearing(UID):
            inside.update(status_of("/proc/thread-self"))
            inside["main"] = status_of(f"/proc/self/task/{os.getpid()}")["Uid"]
        after.update(status_of("/proc/thread-self"))

    thread = threading.Thread(target=wear)
    thread.start()
    thread.join()
    assert inside["Uid"].split()[:2] == [str(UID)] * 2
    assert int(inside["CapEff"], 16) == 0
    assert inside["main"] == before["Uid"]
    assert {name: after[name] for name in before} == before


@needs_root
def test_a_failure_meanwhile_gives_the_thread_back_too() -> None:
    with pytest.raises(FileNotFoundError), wearing(UID):
        subprocess.run(["/nonexistent"], check=False)
    assert os.geteuid() == 0
    assert status_of("/proc/thread-self")["Uid"].split() == ["0"] * 4


def test_leases_lie_in_memory_where_nobody_else_can_write(tmp_path: Path) -> None:
    memory, cache = tmp_path / "shm", tmp_path / "cache"
    memory.mkdir()
    chosen = lease_folder(cache, memory=memory)
    assert chosen.is_relative_to(memory)
    assert chosen.parent.stat().st_mode & 0o777 == 0o700
    assert lease_folder(cache, memory=memory) == chosen
    assert lease_folder(tmp_path / "other", memory=memory) != chosen


@pytest.mark.parametrize("planted", ["open", "link", "file"])
def test_leases_lie_in_the_cache_where_somebody_was_faster(tmp_path: Path, planted: str) -> None:
    memory, cache = tmp_path / "shm", tmp_path / "cache"
    place = memory / f"agentix-{os.geteuid()}"
    memory.mkdir()
    if planted == "open":
        place.mkdir()
        place.chmod(0o777)
    elif planted == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.write_text("")
    assert lease_folder(cache, memory=memory) == cache / "local" / "leases"
    assert lease_folder(cache, memory=tmp_path / "missing") == cache / "local" / "leases"
