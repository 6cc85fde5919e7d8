"""Checks of a provider: what it cannot do is refused by name, never ignored."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from agentix.errors import EnvFailed, Unsupported
from agentix.interfaces import SandboxProvider
from agentix.models import Capability, Compose, ImageBuild
from agentix.testing.cases import ProviderCase
from agentix.testing.checks import Checks, PromiseBroken, expect
from agentix.testing.provider_sandboxes import expect_nothing_left, labelled, runtime_for

REFUSALS = Checks("provider")


async def _refused(
    provider: SandboxProvider, case: ProviderCase, field: str, error: type[EnvFailed] = Unsupported, **changes: object
) -> None:
    config = labelled(case.config, **changes)
    try:
        info = await provider.create(config, await runtime_for(provider))
    except error as exc:
        named = any(word.split("_")[0] in str(exc).lower() for word in (field, *changes))
        expect(named, f"the refusal does not name {field}: {exc}")
        await expect_nothing_left(provider, config)
    else:
        await provider.delete(info.id)
        raise PromiseBroken(f"{field} was ignored, though the capability is not declared")


@REFUSALS.add(lacks=Capability.IMAGES)
async def refuses_images(provider: SandboxProvider, case: ProviderCase) -> None:
    """Without the capability `images` it refuses an image."""
    await _refused(provider, case, "image", image="agentix-check/absent:1")


@REFUSALS.add(lacks=Capability.IMAGE_BUILD)
async def refuses_image_builds(provider: SandboxProvider, case: ProviderCase) -> None:
    """Without the capability `image_build` it refuses a Dockerfile with an instruction that it cannot honour."""
    with TemporaryDirectory(prefix="agentix-check-") as context:
        (Path(context) / "Dockerfile").write_text("FROM scratch\nRUN apt-get install -y agentix-check\n")
        await _refused(provider, case, "run", EnvFailed, image=ImageBuild(context=Path(context)))


@REFUSALS.add(lacks=Capability.NETWORK_PUBLIC)
async def refuses_public_network(provider: SandboxProvider, case: ProviderCase) -> None:
    """Without the capability `network_public` it refuses that network."""
    await _refused(provider, case, "network", network="public")


@REFUSALS.add(lacks=Capability.NETWORK_ALLOWLIST)
async def refuses_allowlist(provider: SandboxProvider, case: ProviderCase) -> None:
    """Without the capability `network_allowlist` it refuses that network."""
    await _refused(provider, case, "network", network="allowlist", allowed_hosts=("example.org",))


@REFUSALS.add(lacks=Capability.MEMORY_LIMIT)
async def refuses_memory_limit(provider: SandboxProvider, case: ProviderCase) -> None:
    """Without the capability `memory_limit` it refuses one."""
    await _refused(provider, case, "memory_mb", memory_mb=256)


@REFUSALS.add(lacks=Capability.CPU_LIMIT)
async def refuses_cpu_limit(provider: SandboxProvider, case: ProviderCase) -> None:
    """Without the capability `cpu_limit` it refuses one."""
    await _refused(provider, case, "cpus", cpus=1)


@REFUSALS.add(lacks=Capability.PIDS_LIMIT)
async def refuses_pids_limit(provider: SandboxProvider, case: ProviderCase) -> None:
    """Without the capability `pids_limit` it refuses one."""
    await _refused(provider, case, "pids", pids=64)


@REFUSALS.add(lacks=Capability.STORAGE_LIMIT)
async def refuses_storage_limit(provider: SandboxProvider, case: ProviderCase) -> None:
    """Without the capability `storage_limit` it refuses one."""
    await _refused(provider, case, "storage_mb", storage_mb=64)


@REFUSALS.add(lacks=Capability.GPUS)
async def refuses_gpus(provider: SandboxProvider, case: ProviderCase) -> None:
    """Without the capability `gpus` it refuses them."""
    await _refused(provider, case, "gpus", gpus=1)


@REFUSALS.add(lacks=Capability.COMPOSE)
async def refuses_compose(provider: SandboxProvider, case: ProviderCase) -> None:
    """Without the capability `compose` it refuses services beside a sandbox."""
    with TemporaryDirectory(prefix="agentix-check-") as directory:
        file = Path(directory) / "docker-compose.yaml"
        file.write_text("services: {main: {image: agentix-check}, other: {image: agentix-check}}")
        await _refused(provider, case, "compose", compose=Compose(files=(file,)))


@REFUSALS.add(lacks=Capability.USERS)
async def refuses_users(provider: SandboxProvider, case: ProviderCase) -> None:
    """Without the capability `users` it refuses a user that it cannot run commands as."""
    await _refused(provider, case, "user", user="agentix-check")
