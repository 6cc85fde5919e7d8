"""What is sent arrives whole and in order, whatever the stream takes at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest
from anyio.abc import ByteStream

from agentix.models import SandboxConfig
from agentix.sandbox import HostProcessProvider

pytestmark = pytest.mark.anyio

CONTENT = bytes(range(256)) * 12_000


class Plain(ByteStream):
    """A stream that can only be waited for."""

    def __init__(self, inner: ByteStream) -> None:
        self.inner = inner

    async def receive(self, max_bytes: int = 65536) -> bytes:
        return await self.inner.receive(max_bytes)

    async def send(self, item: bytes) -> None:
        await self.inner.send(item)

    async def send_eof(self) -> None:
        await self.inner.send_eof()

    async def aclose(self) -> None:
        await self.inner.aclose()


class Reluctant(Plain):
    """A stream that takes little at once, and sometimes nothing."""

    calls = 0

    def send_nowait(self, item: bytes) -> int:
        self.calls += 1
        most = (0, 5, 70_000)[self.calls % 3]
        return self.inner.send_nowait(item[:most]) if most else 0  # type: ignore[attr-defined, no-any-return]


class Wrapping(HostProcessProvider):
    """Dials as ever, and wraps what it gets."""

    kind: type[Plain] = Plain

    async def dial(self, sandbox_id: str) -> ByteStream:
        return self.kind(await super().dial(sandbox_id))


@pytest.fixture(params=[Plain, Reluctant])
async def provider(request: pytest.FixtureRequest) -> AsyncIterator[Wrapping]:
    async with Wrapping() as opened:
        opened.kind = request.param
        yield opened


async def test_a_long_input_arrives_whole_beside_other_calls(provider: Wrapping) -> None:
    async with provider.session(SandboxConfig()) as sandbox:
        answers: list[str] = []

        async def small(number: int) -> None:
            answers.append((await sandbox.exec(["echo", str(number)])).text)

        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(small, number)
            result = await sandbox.exec(["cat"], stdin=CONTENT, output_limit=len(CONTENT))
        assert result.stdout == CONTENT
        assert sorted(answers) == [f"{number}\n" for number in range(5)]
        await sandbox.write_file("copy", CONTENT)
        assert await sandbox.read_file("copy") == CONTENT


async def test_the_end_of_a_session_is_no_error_where_much_still_waits(provider: Wrapping) -> None:
    async with provider.session(SandboxConfig()) as sandbox:
        with anyio.move_on_after(0.05):
            await sandbox.exec(["sleep", "60"], stdin=CONTENT)
        assert (await sandbox.exec(["echo", "still"])).text == "still\n"
