"""Bundles in sandboxes and runs."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from agentix.bundle import Bundle, build_bundle, lookup
from agentix.errors import BundleError
from agentix.models import Mount, RuntimeMount, SandboxConfig, SandboxInfo
from agentix.runner import run_rollouts, stream_rollouts
from agentix.sandbox import HostProcessProvider
from agentix.testing import FakeAgent, FakeDataset

pytestmark = pytest.mark.anyio


class Mounting(HostProcessProvider):
    """Keeps what it was asked to create, as if it mounted."""

    name = "mounting"
    mounts = True
    asked: ClassVar[list[SandboxConfig]] = []

    async def create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
        self.asked.append(config)
        return await super().create(config.model_copy(update={"mounts": ()}), runtime)


@pytest.fixture
def built(workshop: Any, monkeypatch: pytest.MonkeyPatch) -> Bundle:
    monkeypatch.setattr(lookup, "_READY", {})
    monkeypatch.setattr(Mounting, "asked", [])
    return build_bundle(workshop.project(), name="eval:0.1.0")


async def test_its_commands_come_first_whatever_path_the_config_sets(built: Bundle) -> None:
    provider = HostProcessProvider()
    for env in ({}, {"PATH": "/usr/bin:/bin"}):
        async with provider.session(SandboxConfig(bundle="eval:0.1.0", env=env)) as sandbox:
            assert sandbox.bundle is not None
            assert sandbox.bundle.path == str(built.path)
            assert (await sandbox.exec("command -v kit-run")).text == f"{built.path}/bin/kit-run\n"
            assert (await sandbox.exec("kit-run")).text == "this is kit\n"
            assert (await sandbox.exec("echo $PATH")).text.startswith(f"{built.path}/bin:/usr/")
            assert (await sandbox.exec("echo $PATH", env={"PATH": "/x"})).text == "/x\n"


async def test_a_provider_is_given_a_mount_and_the_digest(built: Bundle) -> None:
    own = Mount(source=built.path, target="/own")
    async with Mounting().session(SandboxConfig(bundle="eval:0.1.0", mounts=(own,))) as sandbox:
        assert sandbox.bundle is not None
        assert sandbox.bundle.site == "/agentix/bundle/site"
        assert sandbox.bundle.modules == ("kit",)
        assert any(entry.path == "site/kit/cli.py" for entry in sandbox.bundle.entries)
    (asked,) = Mounting.asked
    assert asked.mounts == (own, Mount(source=built.path, target="/agentix/bundle", read_only=True))
    assert asked.bundle == built.digest


async def test_a_sandbox_without_a_bundle_has_none(built: Bundle) -> None:
    async with Mounting().session(SandboxConfig()) as sandbox:
        assert sandbox.bundle is None
        assert "agentix" not in (await sandbox.exec("echo $PATH")).text
    assert Mounting.asked[0].mounts == ()


async def test_an_unknown_bundle_makes_no_sandbox() -> None:
    with pytest.raises(BundleError, match="there is no bundle nosuch:1"):
        async with Mounting().session(SandboxConfig(bundle="nosuch:1")):
            pass


async def test_a_run_gives_every_sandbox_the_bundle_that_the_name_had_at_its_start(
    built: Bundle, workshop: Any
) -> None:
    (workshop.path / "kit/src/kit/new.py").write_text("")
    provider = Mounting()
    digests = []

    class Agent(FakeAgent):
        async def solve(self, sandbox: Any, instance: dict[str, Any], *, model: str | None) -> Any:
            digests.append(sandbox.bundle.digest)
            if len(digests) == 1:
                build_bundle(workshop.path / "kit", name="eval:0.1.0")
            return await super().solve(sandbox, instance, model=model)

    done = await run_rollouts(
        dataset=FakeDataset(3), agent=Agent(), provider=provider, bundle="eval:0.1.0", n_concurrent=1
    )
    assert [rollout.error for rollout in done] == [None] * 3
    assert digests == [built.digest] * 3
    assert {config.bundle for config in provider.asked} == {built.digest}


async def test_a_run_with_an_unknown_bundle_starts_nothing(workshop: Any) -> None:
    provider, dataset = Mounting(), FakeDataset(3)
    provider.asked.clear()
    with pytest.raises(BundleError, match="there is no bundle nosuch:1"):
        await run_rollouts(dataset=dataset, agent=FakeAgent(), provider=provider, bundle="nosuch:1")
    with pytest.raises(BundleError, match="there is no bundle nosuch:1"):
        async with stream_rollouts(dataset=dataset, agent=FakeAgent(), provider=provider, bundle="nosuch:1") as stream:
            async for _ in stream:
                pass
    assert provider.asked == []


async def test_an_unknown_bundle_of_a_dataset_is_the_fault_of_the_case(workshop: Any) -> None:
    class Dataset(FakeDataset):
        def sandbox_config(self, instance: dict[str, Any]) -> SandboxConfig:
            return SandboxConfig(bundle="nosuch:1")

    (rollout,) = await run_rollouts(dataset=Dataset(1), agent=FakeAgent(), provider=HostProcessProvider())
    assert rollout.failure is not None
    assert (rollout.failure.code, rollout.failure.detail) == ("ENV_FAILED", "bundle")
    assert "there is no bundle nosuch:1" in rollout.failure.message
