"""What a sandbox must not be able to do, each really tried."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentix.api import Capability, ConfigError, ImageBuild, Mount, SandboxConfig, Unsupported, load
from agentix.providers.local import LocalConfig, LocalProvider

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("leftovers")]

AS_ROOT = os.geteuid() == 0


def panic_setting() -> str:
    return Path("/proc/sys/kernel/panic").read_text()


async def test_the_hosts_secrets_and_homes_do_not_exist(provider: LocalProvider) -> None:
    with tempfile.NamedTemporaryFile(prefix="agentix-canary-", dir="/tmp") as canary:
        async with provider.session(SandboxConfig()) as sandbox:
            result = await sandbox.exec("cat /etc/shadow /etc/gshadow; ls -A /root /home /tmp; ls /")
    assert "canary" not in result.text
    assert result.error_text.count("No such file") == 2
    assert Path(canary.name).name not in result.text
    assert ".ssh" not in result.text and ".bashrc" not in result.text


async def test_no_variable_of_the_host_is_seen_by_a_command_or_in_proc(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "canary-value")
    async with provider.session(SandboxConfig(env={"GIVEN": "1"})) as sandbox:
        result = await sandbox.exec("env; cat /proc/*/environ")
    assert "canary-value" not in result.text
    assert "GIVEN=1" in result.text


async def test_only_its_own_processes_are_seen(provider: LocalProvider) -> None:
    async with provider.session(SandboxConfig()) as sandbox:
        pids = (await sandbox.exec("for p in /proc/[0-9]*; do echo ${p#/proc/}; done")).text.split()
        killed = await sandbox.exec(["kill", "-0", str(os.getpid())])
    assert "1" in pids and len(pids) < 8
    assert not killed.ok


async def test_root_inside_cannot_look_into_the_server(provider: LocalProvider) -> None:
    script = "cat /proc/1/environ; ls /proc/1/fd; head -c 1 /proc/1/mem; readlink /proc/1/exe"
    async with provider.session(SandboxConfig()) as sandbox:
        result = await sandbox.exec(script)
    assert result.text == ""
    assert result.error_text.count("Permission denied") >= 3


async def test_kernel_settings_cannot_be_written(provider: LocalProvider) -> None:
    before = panic_setting()
    script = "echo 77 > /proc/sys/kernel/panic; echo x > /proc/sysrq-trigger; mount -t tmpfs x /mnt; dmesg -c"
    async with provider.session(SandboxConfig()) as sandbox:
        result = await sandbox.exec(script)
    assert not result.ok
    assert "Permission denied" in result.error_text or "Read-only" in result.error_text
    assert panic_setting() == before


async def test_root_inside_is_an_unused_uid_outside(provider: LocalProvider) -> None:
    async with provider.session(SandboxConfig()) as sandbox:
        outer = (await sandbox.exec("cat /proc/self/uid_map")).text.split()
        capabilities = (await sandbox.exec("grep CapEff /proc/self/status")).text.split()[1]
    assert outer[0] == "0"
    assert int(outer[1]) == os.geteuid() != 0 or int(outer[1]) >= 0x7000_0000
    # SETUID, SETGID, KILL, CHOWN, DAC_OVERRIDE, FOWNER and nothing else.
    assert int(capabilities, 16) & ~0xEB == 0


async def test_two_sandboxes_share_neither_uid_nor_files_nor_processes(provider: LocalProvider) -> None:
    config = SandboxConfig()
    async with provider.session(config) as one, provider.session(config) as other:
        await one.exec("echo secret > /tmp/x; sleep 100 &")
        assert not await other.exists("/tmp/x")
        assert "sleep" not in (await other.exec("cat /proc/*/cmdline")).text
        maps = {(await box.exec("cat /proc/self/uid_map")).text.split()[1] for box in (one, other)}
    assert len(maps) == (2 if AS_ROOT else 1)


async def test_the_hosts_loopback_is_out_of_reach_but_its_own_works(provider: LocalProvider) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{port}"
        async with provider.session(SandboxConfig()) as sandbox:
            refused = await sandbox.exec(["bash", "-c", connect])
            others = await sandbox.exec("cat /proc/net/dev | wc -l")
    assert not refused.ok and "refused" in refused.error_text
    assert int(others.text) == 3


async def test_sharing_the_hosts_network_is_an_explicit_option_that_is_noted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        async with LocalProvider(LocalConfig(share_host_network=True)) as provider:
            async with provider.session(SandboxConfig(network="public")) as sandbox:
                assert (await sandbox.exec(["bash", "-c", connect])).ok
                assert "share the host's network" in " ".join(sandbox.info.notes)
            async with provider.session(SandboxConfig()) as sandbox:
                assert not (await sandbox.exec(["bash", "-c", connect])).ok


@pytest.fixture
def below_a_shared_mount(tmp_path: Path) -> Iterator[Path]:
    """A file system mounted as an engine's directory may have it: with the roots of containers that are to start."""
    inner = tmp_path / "inner"

    def run(*command: str | Path) -> None:
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("no file system can be mounted here")

    run("mount", "-t", "tmpfs", "none", tmp_path)
    try:
        run("mount", "--make-shared", tmp_path)
        inner.mkdir()
        run("mount", "-t", "tmpfs", "none", inner)
        yield inner
    finally:
        subprocess.run(["umount", "--recursive", tmp_path], check=True)


async def test_giving_a_network_unmounts_nothing_of_the_host(
    provider: LocalProvider, below_a_shared_mount: Path
) -> None:
    async with provider.session(SandboxConfig(network="public")) as sandbox:
        await sandbox.exec("true")
        during = below_a_shared_mount.is_mount()  # noqa: ASYNC240
    assert (during, below_a_shared_mount.is_mount()) == (True, True)  # noqa: ASYNC240


async def test_a_public_network_is_there_or_noted_as_missing(provider: LocalProvider) -> None:
    async with provider.session(SandboxConfig(network="public")) as sandbox:
        devices = (await sandbox.exec("cat /proc/net/dev")).text
        resolver = (await sandbox.exec("cat /etc/resolv.conf")).text
    assert ("tap0" in devices) != any("no network" in note for note in sandbox.info.notes)
    if "tap0" in devices:
        assert resolver == "nameserver 10.0.2.3\n"


async def test_the_hosts_tools_are_read_only(provider: LocalProvider) -> None:
    async with provider.session(SandboxConfig()) as sandbox:
        result = await sandbox.exec(
            "echo x > /usr/bin/true; touch /agentix/runtime/x; touch /dev/x; rm -rf /agentix/etc"
        )
    assert result.error_text.count("Read-only") >= 2
    assert os.stat("/usr/bin/true").st_size > 2


async def test_every_other_place_is_writable_and_private(provider: LocalProvider) -> None:
    places = "/app /tests /logs /solution /tmp /var/tmp /root /home /opt /etc /srv /dev/shm /new/place"
    async with provider.session(SandboxConfig()) as sandbox:
        assert (await sandbox.exec(f"mkdir -p {places}; for d in {places}; do touch $d/probe || exit 1; done")).ok
        modes = (await sandbox.exec("stat -c %a /tmp /app /root /dev/shm")).text.split()
    assert modes == ["1777", "755", "700", "1777"]


async def test_names_of_people_are_not_listed(provider: LocalProvider) -> None:
    async with provider.session(SandboxConfig()) as sandbox:
        uids = [int(line.split(":")[2]) for line in (await sandbox.exec("cat /etc/passwd")).text.splitlines()]
    assert 0 in uids
    assert all(uid < 1000 or uid == 65534 for uid in uids)


@pytest.mark.skipif(not AS_ROOT, reason="an ordinary user has one uid")
async def test_commands_run_as_other_users_who_have_no_power_over_root(provider: LocalProvider) -> None:
    async with provider.session(SandboxConfig(user="nobody")) as sandbox:
        assert (await sandbox.exec(["id", "-un"])).text == "nobody\n"
        assert not (await sandbox.exec("touch /app/x || touch /root/x")).ok
        assert "CapEff:\t0000000000000000" in (await sandbox.exec("cat /proc/self/status")).text
        assert (await sandbox.exec("touch /app/x && chown nobody /app/x", user="root")).ok


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (SandboxConfig(network="allowlist", allowed_hosts=("example.org",)), "network"),
        (SandboxConfig(gpus=1), "gpus"),
        (SandboxConfig(platform="linux/riscv64"), "platform"),
        (SandboxConfig(user="no-such-user"), "no-such-user"),
        (SandboxConfig(image=ImageBuild(context=Path(), platform="linux/s390x")), "platform"),
        (SandboxConfig(mounts=(Mount(source=Path("/nonexistent/x"), target="/x"),)), "/nonexistent/x"),
        (SandboxConfig(mounts=(Mount(source=Path("/usr"), target="x"),)), "not an absolute"),
    ],
    ids=["allowlist", "gpus", "platform", "user", "build-platform", "mount", "mount-target"],
)
async def test_what_it_cannot_do_is_refused_by_name(
    provider: LocalProvider, config: SandboxConfig, message: str
) -> None:
    with pytest.raises(Unsupported, match=message):
        async with provider.session(config):
            pass


async def test_an_image_is_stood_in_for_or_refused_as_chosen(provider: LocalProvider) -> None:
    async with provider.session(SandboxConfig(image="debian:12")) as sandbox:
        assert any("debian:12" in note for note in sandbox.info.notes)
    async with LocalProvider(LocalConfig(images="refuse")) as strict:
        with pytest.raises(Unsupported, match="debian:12"):
            async with strict.session(SandboxConfig(image="debian:12")):
                pass


async def test_mounts_and_shown_directories_are_read_only(cache: Path) -> None:
    folder = cache / "mounted"
    folder.mkdir(exist_ok=True)
    (folder / "file").write_text("content")
    folder.chmod(0o755)
    config = SandboxConfig(mounts=(Mount(source=folder, target="/data/in"),))
    async with LocalProvider(LocalConfig(show=(folder,))) as provider, provider.session(config) as sandbox:
        assert await sandbox.read_file("/data/in/file") == b"content"
        assert await sandbox.read_file(str(folder / "file")) == b"content"
        assert not (await sandbox.exec(f"echo x > /data/in/file || echo x > {folder}/file")).ok


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("opt/node", "not an absolute path"),
        ("/opt/../etc", "not an absolute path"),
        ("/", "would cover"),
        ("/proc", "would cover"),
        ("/agentix/runtime", "would cover"),
        ("/no/such/directory", "does not exist"),
    ],
)
def test_what_cannot_be_shown_is_refused_at_once(path: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"--provider-opt show: .*{said}"):
        load("provider", "local", {"show": path}, where="--provider-opt")


async def test_capabilities_tell_what_this_machine_allows(provider: LocalProvider) -> None:
    assert Capability.ISOLATION in provider.capabilities
    assert (Capability.USERS in provider.capabilities) == AS_ROOT
    assert Capability.IMAGE_BUILD not in provider.capabilities


def test_what_is_not_isolated_is_stated() -> None:
    assert "Not isolated: the kernel" in (LocalProvider.__doc__ or "")
