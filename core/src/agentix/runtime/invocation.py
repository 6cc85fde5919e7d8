"""One call in the worker: its arguments arrive, its function runs, its result leaves."""

from __future__ import annotations

import asyncio
import inspect
import logging
import pickle

from agentix.runtime import answer, context, plain, reporting, wire
from agentix.runtime.loading import load
from agentix.runtime.pieces import Pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from agentix.runtime.worker import Worker


class Invocation:
    """A call that the host has made.

    Args:
        worker: Where it runs.
        id: The host's number for it.
        arguments: `name`, `input` (the pickled arguments, or None where they come as data), `iterate`, `limit`,
            `level`, `main`.
    """

    def __init__(self, worker: Worker, id: int, arguments: dict[str, Any]) -> None:
        self.id = id
        self.limit: int = arguments["limit"]
        self.iterate: bool = arguments["iterate"]
        self.credit = wire.WINDOW
        self._worker = worker
        self._arguments = arguments
        self._pieces: list[bytes] = []
        self._taken = 0
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False
        self._more: asyncio.Event | None = None

    def begin(self) -> None:
        """Run at once where the arguments are there already."""
        if self._arguments["input"] is not None:
            self._pieces.append(self._arguments["input"])
            self.end_input()

    def receive(self, payload: bytes) -> None:
        """A piece of the arguments."""
        self._pieces.append(payload)
        self._taken += len(payload)
        if self._taken >= wire.WINDOW // 2:
            self._worker.send(wire.credit(self.id, self._taken))
            self._taken = 0

    def end_input(self) -> None:
        """The arguments are complete."""
        if self._task is None:
            # In a task, so that what loading prints or raises has a context of its own.
            self._task = asyncio.get_running_loop().create_task(self._run())

    def add_credit(self, amount: int) -> None:
        """The host can take more of the result."""
        self.credit += amount
        if self._more is not None:
            self._more.set()

    def cancel(self) -> None:
        """End it."""
        if self._task is None:
            self.finish(answer.CANCELLED)
        elif not self._cancelled:
            self._cancelled = True
            self._task.cancel()

    def finish(self, told: bytes) -> None:
        """Answer the host."""
        self._worker.finish(self.id, told)

    async def _run(self) -> None:
        told = answer.CANCELLED
        try:
            logging.getLogger().setLevel(self._arguments["level"])
            try:
                function, args, kwargs = self._load()
            except BaseException as error:
                told = reporting.raised(error, loading=True)
                return
            if inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function):
                told = await self._outcome(function, args, kwargs)
            else:
                await self._worker.children.call(self, function, args, kwargs)
        except asyncio.CancelledError as error:
            if not self._cancelled:
                told = reporting.raised(error)
        except BaseException as error:
            # That includes SystemExit, which would end the loop and every other call.
            told = reporting.raised(error)
        finally:
            self.finish(told)

    def _load(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        arguments = self._arguments
        pieces, self._pieces = Pieces(self._pieces), []
        arguments["input"] = None
        function = load(arguments["name"], arguments["main"])
        args, kwargs, values = pickle.load(pieces)  # noqa: S301 - it comes from the host, which is trusted
        context.arrive(values)
        return function, args, kwargs

    async def _outcome(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """Await the function, and send what it gives."""
        if inspect.isasyncgenfunction(function):
            generator = function(*args, **kwargs)
            try:
                async for item in generator:
                    raw = plain.encode(item, limit=self.limit)
                    await self._send([len(raw).to_bytes(4, "big") + raw])
            except (plain.CannotLower, plain.TooLarge) as error:
                return reporting.refused(error)
            finally:
                await generator.aclose()
            return answer.SENT
        value = await function(*args, **kwargs)
        try:
            encoded = plain.parts(value, limit=self.limit)
        except (plain.CannotLower, plain.TooLarge) as error:
            return reporting.refused(error)
        if len(encoded) == 1 and len(encoded[0]) <= answer.INLINE:
            return answer.VALUE + encoded[0]
        await self._send(encoded)
        return answer.SENT

    async def _send(self, encoded: list[bytes | bytearray]) -> None:
        for part in encoded:
            view = memoryview(part)
            for at in range(0, len(view), wire.CHUNK):
                await self.relay(view[at : at + wire.CHUNK])

    async def relay(self, piece: memoryview) -> None:
        """Send a piece of the result when the host can take it."""
        while self.credit <= 0:
            self._more = asyncio.Event()
            await self._more.wait()
        await self._worker.room()
        self.credit -= len(piece)
        self._worker.send_data(self.id, piece)
