"""Checks of a provider that declares `isolation`, users, networks or limits: each holds."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from agentix.errors import SandboxGone, Unsupported
from agentix.interfaces import SandboxProvider
from agentix.models import Capability, Mount
from agentix.testing.cases import ProviderCase
from agentix.testing.checks import Checks, expect, not_applicable
from agentix.testing.provider_sandboxes import opened

ISOLATION = Checks("provider")


@ISOLATION.add(needs=Capability.ISOLATION)
async def host_environment_is_hidden(provider: SandboxProvider, case: ProviderCase) -> None:
    """No process in the sandbox has, or can read, a variable of the host's environment."""
    name = f"AGENTIX_CHECK_{uuid.uuid4().hex}"
    os.environ[name] = "secret"
    try:
        async with opened(provider, case.config) as sandbox:
            seen = await sandbox.exec("env; cat /proc/[0-9]*/environ 2>/dev/null; true", output_limit=1 << 24)
    finally:
        del os.environ[name]
    expect(name.encode() not in seen.stdout, "a variable of the host is visible")


@ISOLATION.add(needs=Capability.ISOLATION)
async def host_files_are_hidden(provider: SandboxProvider, case: ProviderCase) -> None:
    """The host's temporary files and home directory cannot be seen."""
    with TemporaryDirectory(prefix="agentix-check-") as scratch:
        secret = anyio.Path(scratch, uuid.uuid4().hex)
        await secret.write_text("secret")
        async with opened(provider, case.config) as sandbox:
            expect(not (await sandbox.exec(["cat", str(secret)])).ok, f"{scratch} of the host is visible")


@ISOLATION.add(needs=Capability.ISOLATION)
async def host_processes_are_hidden(provider: SandboxProvider, case: ProviderCase) -> None:
    """The sandbox has a process namespace of its own."""
    own = anyio.Path("/proc/self/ns/pid")
    if not await own.is_symlink():
        not_applicable("this host has no namespaces to compare with")
    async with opened(provider, case.config) as sandbox:
        theirs = await sandbox.exec(["readlink", "/proc/self/ns/pid"])
        expect(theirs.text.strip() != str(await own.readlink()), "it shares the host's processes")


@ISOLATION.add(needs=Capability.ISOLATION)
async def sandboxes_are_apart(provider: SandboxProvider, case: ProviderCase) -> None:
    """What one sandbox writes, another does not see."""
    mark = f"/tmp/{uuid.uuid4().hex}"  # noqa: S108 - a path in a sandbox
    async with opened(provider, case.config) as one, opened(provider, case.config) as other:
        await one.write_file(mark, b"mine")
        expect(not await other.exists(mark), f"{mark} of one sandbox is visible in another")


@ISOLATION.add(needs=Capability.ISOLATION)
async def network_is_off_by_default(provider: SandboxProvider, case: ProviderCase) -> None:
    """With `network="none"` nothing outside answers, the host's own loopback included."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610
        async with opened(provider, case.config, network="none") as sandbox:
            result = await sandbox.exec(["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}"], timeout_s=20)
            interfaces = await sandbox.exec("cat /proc/net/dev")
    if result.exit_code == 127:
        not_applicable("the sandbox has no bash to connect with")
    expect(not result.ok, "the sandbox reached a port of the host")
    received = {line.split(":")[0].strip(): line.split(":")[1].split()[0] for line in interfaces.text.splitlines()[2:]}
    # A new network namespace has idle tunnel devices besides the loopback, on some kernels.
    used = [name for name, count in received.items() if name != "lo" and count != "0"]
    expect(not used, f"these network interfaces received something: {', '.join(used)}")


@ISOLATION.add(needs=Capability.NETWORK_PUBLIC)
async def public_network_is_there(provider: SandboxProvider, case: ProviderCase) -> None:
    """With `network="public"` a sandbox has an interface besides the loopback."""
    async with opened(provider, case.config, network="public") as sandbox:
        interfaces = await sandbox.exec("cat /proc/net/route /proc/net/dev")
        expect(interfaces.ok, f"its network cannot be read: {interfaces.error_text}")
        lines = [line for line in interfaces.text.splitlines() if ":" in line and not line.strip().startswith("lo:")]
        expect(lines, "there is only the loopback interface")


@ISOLATION.add(needs=Capability.USERS)
async def users_are_switched(provider: SandboxProvider, case: ProviderCase) -> None:
    """A command runs as the user that the call names."""
    async with opened(provider, case.config) as sandbox:
        default = (await sandbox.exec(["id", "-u"])).text.strip()
        nobody = await sandbox.exec(["id", "-u"], user="nobody")
        expect(nobody.ok, f"user nobody cannot run commands: {nobody.error_text}")
        expect(nobody.text.strip() not in ("0", default), f"nobody has uid {nobody.text.strip()}")


@ISOLATION.add(needs=Capability.MEMORY_LIMIT)
async def memory_limit_holds(provider: SandboxProvider, case: ProviderCase) -> None:
    """A command that needs far more than `memory_mb` does not succeed."""
    async with opened(provider, case.config, memory_mb=256) as sandbox:
        try:
            result = await sandbox.exec("head -c 900000000 /dev/zero | tail -c 900000000 | wc -c", timeout_s=40)
        except SandboxGone:
            return
        expect(result.text.strip() != "900000000", "900 MB fitted into 256 MB")


@ISOLATION.add(needs=Capability.PIDS_LIMIT)
async def pids_limit_holds(provider: SandboxProvider, case: ProviderCase) -> None:
    """No more than `pids` processes exist at a time."""
    loop = "i=0; while [ $i -lt 400 ]; do sleep 60 & i=$((i+1)); echo $i; done"
    async with opened(provider, case.config, pids=100) as sandbox:
        try:
            result = await sandbox.exec(loop, timeout_s=4)
        except SandboxGone:
            return
        started = len(result.stdout.split())
        expect(started <= 110, f"{started} processes started under a limit of 100")


@ISOLATION.add(needs=Capability.STORAGE_LIMIT)
async def storage_limit_holds(provider: SandboxProvider, case: ProviderCase) -> None:
    """Writing more than `storage_mb` fails."""
    async with opened(provider, case.config, storage_mb=64) as sandbox:
        try:
            result = await sandbox.exec("head -c 200000000 /dev/zero > agentix-check", timeout_s=40)
        except SandboxGone:
            return
        expect(not result.ok, "200 MB fitted into 64 MB")


@ISOLATION.add(needs=Capability.CPU_LIMIT)
async def cpu_limit_is_accepted(provider: SandboxProvider, case: ProviderCase) -> None:
    """A sandbox with `cpus` can be made and runs commands."""
    async with opened(provider, case.config, cpus=0.5) as sandbox:
        expect((await sandbox.exec("true")).ok, "a command in it failed")


@ISOLATION.add()
async def mounts_are_honoured(provider: SandboxProvider, case: ProviderCase) -> None:
    """A host directory is mounted where the config says, read-only unless it says otherwise, or refused by name."""
    with TemporaryDirectory(prefix="agentix-check-") as scratch:
        await anyio.Path(scratch).chmod(0o755)
        file = anyio.Path(scratch, "file")
        await file.write_bytes(b"from the host")
        mount = Mount(source=Path(scratch), target="/agentix-check")
        try:
            async with opened(provider, case.config, mounts=(*case.config.mounts, mount)) as sandbox:
                expect(await sandbox.read_file("/agentix-check/file") == b"from the host", "the mount is empty")
                await sandbox.exec("echo changed > /agentix-check/file")
        except Unsupported as exc:
            expect("mount" in str(exc), f"the refusal does not name the mounts: {exc}")
        expect(await file.read_bytes() == b"from the host", "a read-only mount was written to")
