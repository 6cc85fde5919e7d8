"""A call that does its work in small pieces, such as copying a tree."""

from __future__ import annotations

from _collections import deque  # type: ignore[import-not-found]

from agentix.runtime import wire
from agentix.runtime.call import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from agentix.runtime.server import Server

WAIT = object()
"""What a task yields to be left alone until there is input."""


class Task(Call):
    """A call that does its work in small pieces, so that it holds up no other.

    Args:
        server: The server it came to.
        id: The host's number for it.
        work: Given the task, a generator that yields bytes to send (at most `CHUNK`), `WAIT` for input, or None
            to give way, and returns the result.
    """

    def __init__(self, server: Server, id: int, work: Callable[[Task], Generator[Any, None, Any]]) -> None:
        super().__init__(server, id)
        self._inbox: deque[bytes] = deque()
        self._ended = False
        self._work = work(self)
        server.wake(self)

    def take(self) -> bytes | None:
        """The next piece of input, b"" after the last one, None where it has yet to come."""
        if self._inbox:
            piece: bytes = self._inbox.popleft()
            self.consumed(len(piece))
            return piece
        return b"" if self._ended else None

    def receive(self, payload: bytes) -> None:
        """Keep a piece of input; how much there can be is bounded by the window."""
        if payload:
            self._inbox.append(payload)
            self.server.wake(self)

    def end_input(self) -> None:
        """No more input will come."""
        self._ended = True
        self.server.wake(self)

    def add_credit(self, amount: int) -> None:
        """The host can take `amount` more bytes."""
        super().add_credit(amount)
        self.server.wake(self)

    def cancel(self) -> None:
        """Stop where it is."""
        self._work.close()
        self.fail(InterruptedError(4, "the call was cancelled"))

    def step(self) -> None:
        """Go on to the generator's next yield."""
        if self.id not in self.server.calls or self.credit <= 0:
            return
        try:
            item = next(self._work)
        except StopIteration as stopped:
            self.finish(stopped.value)
        except Exception as error:
            self.fail(error)
        else:
            if item is WAIT:
                if self._inbox or self._ended:
                    self.server.wake(self)
                return
            if item:
                self.send(wire.PLAIN, item)
            self.server.wake(self)
