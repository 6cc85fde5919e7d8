"""Sandboxes for the checks: each with a label of its own, and never left behind."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import anyio

from agentix.interfaces import SandboxProvider
from agentix.models import ExecResult, RuntimeMount, SandboxConfig, SandboxInfo
from agentix.testing.checks import PromiseBroken, expect

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox

LABEL = "agentix.check"


def labelled(config: SandboxConfig, **changes: object) -> SandboxConfig:
    """The config with changes and a label that no other sandbox has."""
    values = {name: getattr(config, name) for name in config.model_fields_set} | changes
    return SandboxConfig.model_validate(values | {"labels": {**config.labels, LABEL: uuid.uuid4().hex}})


async def runtime_for(provider: SandboxProvider) -> RuntimeMount:
    """The runtime that the provider mounts: its own choice where it has one."""
    from agentix.bundle import base_runtime
    from agentix.sandbox import BaseProvider

    return await (provider.runtime() if isinstance(provider, BaseProvider) else base_runtime())


async def listed(provider: SandboxProvider, config: SandboxConfig) -> list[SandboxInfo]:
    """The sandboxes that exist with the config's label."""
    return await provider.list({LABEL: config.labels[LABEL]})


async def expect_nothing_left(provider: SandboxProvider, config: SandboxConfig) -> None:
    """Check that no sandbox with the config's label exists; delete those that do."""
    left = await listed(provider, config)
    with anyio.CancelScope(shield=True), contextlib.suppress(Exception):
        for info in left:
            await provider.delete(info.id)
    expect(not left, f"left behind: {', '.join(info.id for info in left)}")


@contextlib.asynccontextmanager
async def created(provider: SandboxProvider, config: SandboxConfig) -> AsyncIterator[SandboxInfo]:
    """A sandbox made by `create` alone."""
    info = await provider.create(config, await runtime_for(provider))
    try:
        yield info
    finally:
        with anyio.CancelScope(shield=True):
            await provider.delete(info.id)


@contextlib.asynccontextmanager
async def opened(provider: SandboxProvider, config: SandboxConfig, **changes: object) -> AsyncIterator[Sandbox]:
    """A session with a changed config."""
    async with provider.session(labelled(config, **changes)) as sandbox:
        yield sandbox


async def command_lines(sandbox: Sandbox) -> bytes:
    """The command lines of all processes that the sandbox can see."""
    result: ExecResult = await sandbox.exec("cat /proc/[0-9]*/cmdline 2>/dev/null; true", timeout_s=20)
    if not result.stdout:
        raise PromiseBroken("the sandbox has no /proc")
    return result.stdout
