"""A listener inside the sandbox whose machine has no descriptors left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentix.runtime import forward


class Recording:
    """A server that is told what it would do."""

    def __init__(self) -> None:
        self.calls: dict[int, Any] = {}
        self.watched: set[int] = set()
        self.due: list[Callable[[], None]] = []
        self.sent: list[bytes] = []
        self.send = self.sent.append

    def watch(self, fd: int, mask: int, told: Callable[[int], None]) -> None:
        assert fd >= 0
        self.watched.add(fd)

    def unwatch(self, fd: int) -> None:
        self.watched.discard(fd)

    def later(self, seconds: float, function: Callable[[], None]) -> list[Any]:
        self.due.append(function)
        return []


class Full:
    """The listener's socket where nothing more can be opened."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def _accept(self) -> tuple[int, object]:
        raise OSError(24, "too many open files")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def test_a_listener_that_is_closed_while_it_waits_to_try_again_stays_closed() -> None:
    server: Any = Recording()
    listener: Any = forward.start(server, 1, "forward", {"port": 0})
    server.calls[1] = listener
    waiting: Any = forward.start(server, 2, "accept", {"listener": 1})
    server.calls[2] = waiting
    fd = listener._socket.fileno()
    assert server.watched == {fd}
    listener._socket = Full(listener._socket)
    listener._accept(1)
    assert server.watched == set()
    listener.cancel()
    (again,) = server.due
    again()
    assert server.watched == set()
