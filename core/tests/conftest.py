"""What every core test may use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from agentix.models import SandboxConfig

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def sandbox(anyio_backend: str) -> AsyncIterator[Sandbox]:
    """A sandbox that is a plain child process of the test, with a real runtime in it."""
    from agentix.sandbox import HostProcessProvider

    async with HostProcessProvider().session(SandboxConfig()) as opened:
        yield opened
