"""The network of a sandbox that runs, and what the engine tells of services and healthchecks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.api import Capability, EnvFailed, SandboxConfig, SandboxGone, Unsupported
from agentix.providers.docker import DockerProvider
from agentix.providers.docker.health import healthcheck_of, seconds
from agentix.providers.docker.services import _Output


@pytest.mark.real
@pytest.mark.anyio
@pytest.mark.xdist_group("engine")
@pytest.mark.parametrize("start", ["none", "public"])
async def test_a_sandbox_that_runs_is_cut_off_and_connected_again(
    provider: DockerProvider, images: Any, start: Any
) -> None:
    async with provider.session(SandboxConfig(image=images.busybox, network=start)) as sandbox:
        if Capability.NETWORK_SWITCH not in sandbox.capabilities:
            pytest.skip("Podman cannot switch the network of a sandbox that runs")

        async def devices() -> set[str]:
            return {name for name in (await sandbox.exec("ls /sys/class/net")).text.split() if name.startswith("eth")}

        for network in ("public", "none", "none", "public", "public"):
            await sandbox.set_network(network)  # type: ignore[arg-type]
            assert bool(await devices()) is (network == "public")
        with pytest.raises(Unsupported, match="allowlist"):
            await sandbox.set_network("allowlist")
    with pytest.raises(SandboxGone):
        await provider.set_network(sandbox.id, "none")


@pytest.mark.real
@pytest.mark.anyio
@pytest.mark.xdist_group("engine")
async def test_a_service_that_is_not_there_is_named(provider: DockerProvider, images: Any) -> None:
    async with provider.session(SandboxConfig(image=images.busybox)) as sandbox:
        with pytest.raises(EnvFailed, match="no service 'db'"):
            await sandbox.service("db").exec("true")


def test_a_healthcheck_is_what_the_engine_takes() -> None:
    assert healthcheck_of({}) is None
    assert healthcheck_of({"healthcheck": {"test": ["NONE"]}}) is None
    assert healthcheck_of({"healthcheck": {"test": ["CMD", "x"], "disable": True}}) is None
    check = {"test": "test -f /x", "interval": "1m30s", "timeout": "0.5s", "retries": 4, "start_period": "10ms"}
    assert healthcheck_of({"healthcheck": check}) == {
        "Test": ["CMD-SHELL", "test -f /x"],
        "Interval": 90_000_000_000,
        "Timeout": 500_000_000,
        "StartPeriod": 10_000_000,
        "Retries": 4,
    }


@pytest.mark.parametrize("wrong", ["", "5", "1m 30s", "s", "-1s", "1d", "1m30"])
def test_a_time_that_is_no_duration_is_refused(wrong: str) -> None:
    with pytest.raises(EnvFailed, match="no duration"):
        seconds(wrong, where="services.main.healthcheck.interval")


@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=20),
    st.lists(st.integers(1, 30), min_size=1, max_size=20),
    st.integers(0, 60),
)
def test_a_services_output_is_the_same_however_it_comes(
    frames: list[tuple[int, bytes]], cuts: list[int], limit: int
) -> None:
    whole = b"".join(bytes([kind, 0, 0, 0]) + len(data).to_bytes(4, "big") + data for kind, data in frames)
    output, at, turn = _Output(limit), 0, 0
    while at < len(whole):
        size = cuts[turn % len(cuts)]
        output.feed(whole[at : at + size])
        at, turn = at + size, turn + 1
    for kind in (1, 2):
        sent = b"".join(data for which, data in frames if which == kind)
        tail = limit // 2
        cut = sent[: limit - tail] + (sent[-tail:] if tail else b"")
        assert output.kept(kind - 1) == (sent if len(sent) <= limit else cut)
        assert output.sizes[kind - 1] == len(sent)
