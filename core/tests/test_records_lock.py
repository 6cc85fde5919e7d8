from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from agentix.errors import RunLocked
from agentix.records.lock import Owner, RunLock

HOLDER = """
import sys
from pathlib import Path
from agentix.records.lock import Owner, RunLock
RunLock(Path(sys.argv[1])).acquire(Owner.this_process("then"))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    path = tmp_path / ".lock"
    child = subprocess.Popen([sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"held\n"
    yield path, child
    child.kill()
    child.communicate()


def test_a_held_lock_is_refused_and_names_its_owner(holder):
    path, child = holder
    with pytest.raises(RunLocked, match=f"process {child.pid} on .*, since then"):
        RunLock(path).acquire(Owner.this_process("now"))


def test_the_lock_of_a_killed_owner_is_taken_over(holder):
    path, child = holder
    child.kill()
    child.wait()
    lock = RunLock(path)
    lock.acquire(Owner.this_process("now"))
    assert lock.taken_over.pid == child.pid
    lock.release()


def test_a_released_lock_is_free_and_leaves_no_owner(tmp_path):
    for _ in range(2):
        lock = RunLock(tmp_path / ".lock")
        lock.acquire(Owner.this_process("now"))
        lock.release()
        lock.release()
        assert lock.taken_over is None


def test_two_locks_of_one_process_exclude_each_other(tmp_path):
    first = RunLock(tmp_path / ".lock")
    first.acquire(Owner.this_process("now"))
    with pytest.raises(RunLocked):
        RunLock(tmp_path / ".lock").acquire(Owner.this_process("now"))
    first.release()


def test_a_writer_on_another_machine_counts_as_alive_while_it_touches_the_lock(tmp_path):
    path = tmp_path / ".lock"
    path.write_text(json.dumps({"host": "elsewhere", "pid": 7, "started": "then", "boot": "other"}))
    with pytest.raises(RunLocked, match="process 7 on elsewhere"):
        RunLock(path).acquire(Owner.this_process("now"))
    long_ago = time.time() - 3600
    os.utime(path, (long_ago, long_ago))
    lock = RunLock(path)
    lock.acquire(Owner.this_process("now"))
    assert lock.taken_over.host == "elsewhere"
    lock.release()


def test_an_unreadable_owner_does_not_stop_a_free_lock(tmp_path):
    path = tmp_path / ".lock"
    path.write_bytes(b"\0\0{")
    lock = RunLock(path)
    lock.acquire(Owner.this_process("now"))
    lock.release()


def test_a_process_that_was_born_later_with_the_same_pid_is_not_the_owner():
    me = Owner.this_process("now")
    assert me.is_alive
    assert not Owner(host=me.host, pid=me.pid, started="then", boot=me.boot, birth=1).is_alive
