"""What the server holds of one call of the host."""

from __future__ import annotations

from agentix.runtime import users, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agentix.runtime.server import Server


class Call:
    """One call: a result or an error ends it, and nothing is sent for it afterwards.

    Args:
        server: The server it came to.
        id: The host's number for it.
    """

    def __init__(self, server: Server, id: int) -> None:
        self.server = server
        self.id = id
        self.credit = wire.WINDOW
        self._consumed = 0

    def received(self, payload: bytes) -> None:
        """A piece of input arrived, with its channel."""
        self.receive(payload[1:])

    def receive(self, payload: bytes) -> None:
        """Input arrived; nothing waits for it by default."""
        self.consumed(len(payload))

    def end_input(self) -> None:
        """No more input will come."""

    def add_credit(self, amount: int) -> None:
        """The host can take `amount` more bytes."""
        self.credit += amount

    def cancel(self) -> None:
        """The host does not want the result any more; the call ends soon, one way or the other."""

    def step(self) -> None:
        """Do a small piece of work; called after `server.wake(self)`."""

    def consumed(self, amount: int) -> None:
        """Let the host send `amount` more bytes of input."""
        self._consumed += amount
        if self._consumed >= wire.WINDOW // 2:
            self.server.send(wire.credit(self.id, self._consumed))
            self._consumed = 0

    def send(self, channel: int, payload: bytes | memoryview) -> None:
        """Send output that there is credit for."""
        self.credit -= len(payload)
        self.server.send(wire.data(self.id, channel, payload))

    def finish(self, value: Any) -> None:
        """End the call with its result."""
        if self.server.calls.pop(self.id, None) is not None:
            self.server.send(wire.frame(wire.RESULT, self.id, wire.encode(value)))

    def fail(self, error: BaseException) -> None:
        """End the call with an error."""
        if self.server.calls.pop(self.id, None) is not None:
            self.server.send(wire.frame(wire.ERROR, self.id, wire.encode(describe(error))))


def describe(error: BaseException) -> dict[str, Any]:
    """An exception as plain data."""
    if isinstance(error, OSError) and error.errno is not None:
        path = error.filename
        if isinstance(path, str):
            path = path.encode("utf-8", "surrogateescape")
        return {
            "kind": "os",
            "errno": error.errno,
            "message": str(error.strerror),
            "path": path if isinstance(path, bytes) else b"",
        }
    if isinstance(error, users.UnknownUser):
        return {"kind": "user", "errno": 0, "message": str(error), "path": b""}
    return {"kind": "internal", "errno": 0, "message": f"{type(error).__name__}: {error}", "path": b""}
