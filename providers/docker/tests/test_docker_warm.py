"""Containers that are kept ready: never given out twice, checked before use, gone at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentix.api import EnvFailed, RuntimeMount, SandboxConfig, SandboxInfo
from agentix.providers.docker import DockerProvider
from agentix.providers.docker.config import DockerConfig
from agentix.providers.docker.containers import remove_container
from agentix.providers.docker.warm import WarmPool

pytestmark = pytest.mark.anyio

RUNTIME = RuntimeMount(path=Path("/r"), digest="sha256:r", argv=("/r/python",))


class Makes:
    def __init__(self) -> None:
        self.count = 0
        self.live: set[str] = set()
        self.unfit: set[str] = set()
        self.error: Exception | None = None

    async def make(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
        await anyio.lowlevel.checkpoint()
        if self.error is not None:
            raise self.error
        self.count += 1
        self.live.add(f"s{self.count}")
        return SandboxInfo(id=f"s{self.count}", provider="docker")

    async def fits(self, info: SandboxInfo, config: SandboxConfig) -> bool:
        await anyio.lowlevel.checkpoint()
        return info.id in self.live and info.id not in self.unfit

    async def delete(self, sandbox_id: str) -> None:
        self.live.discard(sandbox_id)

    def pool(self, count: int) -> WarmPool:
        return WarmPool(count, make=self.make, fits=self.fits, delete=self.delete)


def ready_in(provider: DockerProvider) -> list[str]:
    assert provider._warm is not None
    return [info.id for kind in provider._warm._kinds.values() for info in kind.ready]


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.005)


async def test_a_config_that_is_asked_for_twice_is_kept_ready_and_nobody_gets_anothers() -> None:
    makes = Makes()
    pool = makes.pool(2)
    config = SandboxConfig(image="x:1", labels={"a": "1"})
    assert await pool.take(config, RUNTIME) is None
    await anyio.wait_all_tasks_blocked()
    assert makes.count == 0
    assert await pool.take(config.model_copy(update={"labels": {"a": "2"}}), RUNTIME) is None
    await until(lambda: len(makes.live) == 2)
    got: list[str] = []

    async def take() -> None:
        info = await pool.take(config, RUNTIME)
        if info is not None:
            got.append(info.id)

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(take)
    assert len(set(got)) == len(got) >= 2
    assert await pool.take(SandboxConfig(image="y:1"), RUNTIME) is None
    await until(lambda: len(makes.live - set(got)) == 2)
    await pool.aclose()
    assert makes.live == set(got)


async def test_one_that_died_or_is_of_an_old_image_is_deleted_and_another_is_taken() -> None:
    makes = Makes()
    pool = makes.pool(2)
    config = SandboxConfig(image="x:1")
    await pool.take(config, RUNTIME)
    await pool.take(config, RUNTIME)
    await until(lambda: makes.live == {"s1", "s2"})
    makes.unfit = {"s1"}
    info = await pool.take(config, RUNTIME)
    assert info is not None
    assert info.id == "s2"
    await until(lambda: "s1" not in makes.live and len(makes.live) == 3)
    await pool.aclose()
    assert makes.live == {"s2"}


async def test_only_the_configs_that_were_asked_for_last_are_kept() -> None:
    makes = Makes()
    pool = makes.pool(1)
    for number in range(6):
        config = SandboxConfig(image=f"x:{number}")
        await pool.take(config, RUNTIME)
        await pool.take(config, RUNTIME)
        expected = min(number + 1, 4)
        await until(lambda: len(makes.live) == expected)  # noqa: B023
    await pool.aclose()
    assert makes.live == set()


async def test_what_cannot_be_made_is_tried_again_only_when_it_is_asked_for() -> None:
    makes = Makes()
    makes.error = EnvFailed("no such image")
    pool = makes.pool(1)
    config = SandboxConfig(image="x:1")
    await pool.take(config, RUNTIME)
    await pool.take(config, RUNTIME)
    await anyio.wait_all_tasks_blocked()
    assert makes.count == 0
    makes.error = None
    assert await pool.take(config, RUNTIME) is None
    await until(lambda: len(makes.live) == 1)
    await pool.aclose()
    await pool.aclose()
    assert makes.live == set()


@pytest.mark.real
@pytest.mark.xdist_group("engine")
async def test_a_loop_over_sessions_finds_containers_ready_under_its_own_labels(images: Any) -> None:
    seen: list[str] = []
    config = SandboxConfig(image=images.busybox, labels={"agentix.run": images.prefix})
    async with DockerProvider(DockerConfig(warm=2)) as provider:
        for number in range(6):
            asked = config.model_copy(update={"labels": {**config.labels, "n": str(number)}})
            async with provider.session(asked) as sandbox:
                assert (await sandbox.exec("echo x > /x; ls /x")).ok
                seen.append(sandbox.id)
                assert sandbox.info.labels["n"] == str(number)
                found = [info.id for info in await provider.list({"n": str(number), "agentix.run": images.prefix})]
                assert found == [sandbox.id]
                if number:
                    await until(lambda: len(ready_in(provider)) == 2)
        assert len(set(seen)) == 6
        ready = ready_in(provider)
        assert not {*ready} & {*seen}
        # The first of those that wait is lost: the next session does not get it.
        await remove_container(provider._engine, ready[0])
        async with provider.session(config) as sandbox:
            assert sandbox.id == ready[1]
        mine = [info for info in await provider.list({}) if info.id in provider._streams]
        assert mine
    async with DockerProvider() as other:
        left = {info.id for info in await other.list({})}
        assert not left & {*seen, *ready, *(info.id for info in mine)}


@pytest.mark.real
@pytest.mark.xdist_group("engine")
async def test_without_closing_the_provider_the_end_of_the_loop_leaves_none(images: Any, anyio_backend: str) -> None:
    made: list[str] = []

    async def loop() -> None:
        provider = DockerProvider(DockerConfig(warm=1))
        make = provider._make

        async def noted(config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
            info = await make(config, runtime)
            made.append(info.id)
            return replace(info)

        provider._make = noted  # type: ignore[method-assign]
        for _ in range(2):
            async with provider.session(SandboxConfig(image=images.busybox)) as sandbox:
                assert (await sandbox.exec(["true"])).ok
        await until(lambda: len(made) > 2)

    await anyio.to_thread.run_sync(lambda: anyio.run(loop, backend=anyio_backend))
    assert len(made) > 2
    async with DockerProvider() as other:
        assert not {info.id for info in await other.list({})} & {*made}
