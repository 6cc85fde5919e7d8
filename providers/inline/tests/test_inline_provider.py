from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentix.api import ImageBuild, SandboxConfig, Unsupported
from agentix.providers.inline import InlineProvider


@pytest.fixture
def provider() -> InlineProvider:
    return InlineProvider()


@pytest.mark.anyio
async def test_a_command_runs_as_this_user_in_a_directory_that_is_gone_afterwards(provider: InlineProvider) -> None:
    async with provider.session(SandboxConfig()) as sandbox:
        result = await sandbox.exec("id -u; pwd; echo hi > file")
        uid, place = result.text.split()
        assert int(uid) == os.getuid()
        assert os.listdir(place) == ["file"]
    with pytest.raises(FileNotFoundError):
        os.listdir(place)
    assert await provider.list({}) == []


@pytest.mark.anyio
async def test_temporary_files_have_a_private_place_beside_it_that_is_gone_too(provider: InlineProvider) -> None:
    async with provider.session(SandboxConfig()) as sandbox:
        made = Path((await sandbox.exec("mktemp -d")).text.strip())
        assert made.parent == Path(sandbox.info.temporary)
        assert (await sandbox.exec("ls -A")).text == ""
        assert made.parent.stat().st_mode & 0o777 == 0o700
    assert not made.parent.parent.exists()


@pytest.mark.anyio
async def test_the_environment_of_this_process_is_not_handed_on(
    provider: InlineProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "canary")
    async with provider.session(SandboxConfig(env={"GIVEN": "1"})) as sandbox:
        text = (await sandbox.exec("env")).text
    assert "canary" not in text
    assert "GIVEN=1" in text


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("config", "field"),
    [
        (SandboxConfig(image=ImageBuild(context=Path())), "image"),
        (SandboxConfig(network="allowlist", allowed_hosts=("example.org",)), "network"),
        (SandboxConfig(memory_mb=64), "memory_mb"),
        (SandboxConfig(cpus=1), "cpus"),
        (SandboxConfig(user="nobody"), "user"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_takes_a_sandbox_is_refused_by_name(
    provider: InlineProvider, config: SandboxConfig, field: str
) -> None:
    with pytest.raises(Unsupported, match=field):
        async with provider.session(config):
            pass


@pytest.mark.anyio
async def test_an_image_is_stood_in_for_and_that_is_noted(provider: InlineProvider) -> None:
    async with provider.session(SandboxConfig(image="debian:12")) as sandbox:
        assert any("debian:12" in note for note in sandbox.info.notes)


def test_it_promises_nothing_and_says_so() -> None:
    assert InlineProvider.capabilities == frozenset()
    assert "nothing is isolated" in (InlineProvider.__doc__ or "")
