"""The host's end of the stream to one runtime: calls, credit, heartbeats, and what happens when it breaks."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import anyio

from agentix.errors import HostError, SandboxGone, WireError
from agentix.runtime import wire
from agentix.sandbox.call import Call
from agentix.sandbox.failures import same_failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from anyio.abc import ByteStream, TaskGroup

    from agentix.sandbox.resuming import Resuming

RECEIVE = 1 << 18
EXPLAIN_S = 15.0
"""How long the provider is asked why a stream ended: an engine that is busy takes seconds for each question."""


class Connection:
    """Calls over one stream and those that follow it, any number at a time.

    Args:
        stream: The stream that the provider dialled.
        explain: Asked once why the stream ended.
        stalled: Asked when the runtime does not answer: why it never will, `None` where it may.
        resuming: Dials again when the stream is lost; `None` where the sandbox ends with its stream.
        heartbeat_s: After how many seconds of silence the runtime is asked for a sign of life.
        missed: How many such questions in a row may stay unanswered.
    """

    def __init__(
        self,
        stream: ByteStream,
        *,
        explain: Callable[[], Awaitable[SandboxGone]],
        stalled: Callable[[], Awaitable[SandboxGone | None]],
        resuming: Resuming | None,
        heartbeat_s: float,
        missed: int,
    ) -> None:
        self._stream = stream
        self._explain = explain
        self._stalled = stalled
        self._resuming = resuming
        self._heartbeat_s = heartbeat_s
        self._missed = missed
        self._reader = wire.FrameReader(wire.FROM_RUNTIME)
        self._calls: dict[int, Call] = {}
        self._last = 0
        self._urgent: deque[bytes] = deque()
        self._bulk: deque[bytes] = deque()
        self._again: list[bytes | bytearray] = []
        self._send_nowait: Callable[[bytes], int] | None = getattr(stream, "send_nowait", None)
        self._sending = False
        self._greeting: Any = None
        self._greeted = anyio.Event()
        self._heard = False
        self._failure: HostError | None = None
        self._failing = False
        self._group: TaskGroup | None = None
        self._session: TaskGroup | None = None
        self._scope: anyio.CancelScope | None = None
        self._stopped = anyio.Event()

    @property
    def open(self) -> bool:
        """Whether calls can still be made."""
        return not self._failing

    async def start(self, group: TaskGroup, hello: dict[str, Any]) -> dict[str, Any]:
        """Start to serve the stream in a task group, and greet the runtime.

        Raises:
            SandboxGone: The stream ended first.
            WireError: The answer is not the protocol's, or of another version.
        """
        self._session = group
        if self._resuming is not None:
            hello = {**hello, "resume": self._resuming.terms}
        self._urgent.append(wire.frame(wire.HELLO, 0, wire.encode(hello)))
        group.start_soon(self._run)
        await self._greeted.wait()
        self.check()
        greeting: dict[str, Any] = self._greeting
        return greeting

    def check(self) -> None:
        """Raise the reason why the connection is closed, where it is."""
        if self._failure is not None:
            raise same_failure(self._failure)

    def spawn(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run something that raises nothing for as long as the sandbox's session lasts."""
        assert self._session is not None
        self._session.start_soon(function)

    def call(self, method: str, arguments: dict[str, Any]) -> Call:
        """Begin a call; `async with` it."""
        self.check()
        self._last += 1
        call = Call(self, self._last)
        self._calls[call.id] = call
        self.send(wire.frame(wire.CALL, call.id, wire.encode([method, arguments])))
        return call

    async def confirm(self) -> None:
        """Make sure that the sandbox lives: whoever ends it may end a command in it a moment before.

        Raises:
            SandboxGone: It does not.
        """
        if (gone := await self._asked()) is not None:
            self._give_up(gone)
        self.check()
        async with self.call("exists", {"path": b"/"}) as call:
            await call.result()

    def send(self, frame: bytes, *, bulk: bool = False) -> None:
        """Send a frame, now or as soon as the stream takes it; bulk data waits for everything else."""
        if self._failing:
            return
        (self._bulk if bulk else self._urgent).append(frame)
        if not self._sending:
            self._start_sending()

    def distrust(self, error: WireError) -> None:
        """Give the runtime up: it has sent what no honest one sends, so nothing it sends is worth waiting for."""
        self._give_up(error)

    async def aclose(self) -> None:
        """Close the stream; the runtime then ends everything that it started."""
        self._fail(SandboxGone("the sandbox was closed"))
        if self._scope is None:
            await anyio.aclose_forcefully(self._stream)
            return
        # The task that reads closes the stream itself, so that it is not closed under its hands.
        self._scope.cancel()
        await self._stopped.wait()

    async def _run(self) -> None:
        # Whatever happens here ends calls and never the task group, which is the caller's.
        try:
            with anyio.CancelScope() as self._scope:
                while await self._serve():
                    pass
        finally:
            self._fail(SandboxGone("the sandbox was closed"))
            try:
                await anyio.aclose_forcefully(self._stream)
            finally:
                self._stopped.set()

    async def _serve(self) -> bool:
        """Serve the stream until it ends; whether there is another one."""
        lost = False
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch)
                self._group = group
                self._sending = False
                try:
                    self._start_sending()
                    await self._read()
                finally:
                    self._group = None
        except* WireError as errors:
            self._fail(errors.exceptions[0])  # type: ignore[arg-type]
        except* (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            lost = not self._failing
        except* Exception as errors:
            failure = HostError(f"the connection to the sandbox failed: {errors.exceptions[0]!r}", detail="wire")
            failure.__cause__ = errors.exceptions[0]
            self._fail(failure)
        if not lost or self._failing:
            return False
        if self._resuming is None:
            await self._lost()
            return False
        return await self._go_on(self._resuming)

    async def _go_on(self, resuming: Resuming) -> bool:
        await anyio.aclose_forcefully(self._stream)
        failure: HostError
        try:
            self._stream, again = await resuming.dial()
        except (SandboxGone, WireError) as error:
            failure = error
        except Exception as error:
            failure = HostError(f"the sandbox could not be dialled again: {error!r}", detail="wire")
            failure.__cause__ = error
        else:
            # What the stream before had yet to repeat comes after what was sent on it.
            self._again[:0] = again
            self._send_nowait = getattr(self._stream, "send_nowait", None)
            return True
        self._fail(failure)
        return False

    async def _lost(self) -> None:
        if self._failing:
            return
        self._failing = True
        with anyio.CancelScope(shield=True), anyio.move_on_after(EXPLAIN_S):
            try:
                self._break(await self._explain())
            except Exception as error:
                gone = SandboxGone("the connection to the sandbox was lost")
                gone.add_note(f"why could not be found out: {error!r}")
                self._break(gone)
        if self._failure is None:
            self._break(SandboxGone("the connection to the sandbox was lost"))

    def _fail(self, failure: HostError) -> None:
        """Make no more calls; the first reason stands."""
        if not self._failing:
            self._failing = True
            self._break(failure)

    def _give_up(self, failure: HostError) -> None:
        if not self._failing:
            self._fail(failure)
            if self._scope is not None:
                self._scope.cancel()

    def _break(self, failure: HostError) -> None:
        if self._failure is None:
            self._failure = failure
        self._greeted.set()
        self._urgent.clear()
        self._bulk.clear()
        self._again.clear()
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.broke()

    async def _read(self) -> None:
        while True:
            received = await self._stream.receive(RECEIVE)
            self._heard = True
            try:
                for kind, number, payload in self._reader.feed(received):
                    self._dispatch(kind, number, payload)
            except wire.Malformed as error:
                raise WireError(f"the sandbox's runtime broke the protocol: {error}") from error
            # Counted once its frames have taken effect: what is not counted comes again.
            if self._resuming is not None and (count := self._resuming.count(len(received))) is not None:
                self.send(wire.ack(count))

    def _dispatch(self, kind: int, number: int, payload: bytes) -> None:
        if kind == wire.PONG:
            return
        if kind == wire.ACK:
            self._acknowledge(payload)
            return
        if kind == wire.HELLO:
            if self._greeting is not None:
                raise wire.Malformed("it said hello twice")
            self._greeting = _checked_greeting(wire.decode(payload))
            self._greeted.set()
            return
        call = self._calls.get(number)
        if call is None:
            raise wire.Malformed(f"a frame belongs to call {number}, which is not under way")
        if kind == wire.DATA:
            call.received(payload)
        elif kind == wire.CREDIT:
            call.credited(int.from_bytes(payload, "big"))
        else:
            value = wire.decode(payload)
            del self._calls[number]
            call.ended(value, failed=kind == wire.ERROR)

    def _acknowledge(self, payload: bytes) -> None:
        if self._resuming is None:
            raise wire.Malformed("it acknowledges what nobody keeps")
        self._resuming.kept.acknowledge(int.from_bytes(payload, "big"))
        if self._bulk and not self._sending:
            self._start_sending()

    def _start_sending(self) -> None:
        """Send what waits: at once where the stream can do that, the rest in a task."""
        if self._group is None:
            return
        kept = None if self._resuming is None else self._resuming.kept
        if self._send_nowait is not None and not self._again and len(self._urgent) + len(self._bulk) == 1:
            queue = self._urgent or self._bulk
            if queue is self._bulk and self._held_up:
                return
            frame = queue[0]
            try:
                sent = self._send_nowait(frame)
            except OSError:
                # The task finds out, where it ends the connection.
                sent = 0
            if kept is not None:
                kept.add(frame[:sent])
            if sent == len(frame):
                queue.popleft()
                return
            queue[0] = frame[sent:]
            if queue is self._bulk and sent:
                # Begun, it goes before all else.
                self._urgent.append(self._bulk.popleft())
        self._sending = True
        self._group.start_soon(self._write)

    async def _write(self) -> None:
        while self._again or self._urgent or (self._bulk and not self._held_up):
            burst = bytearray()
            while self._again:
                burst += self._again.pop(0)
            while self._urgent:
                burst += self._urgent.popleft()
            while self._bulk and len(burst) < RECEIVE and not self._held_up:
                burst += self._bulk.popleft()
            piece = bytes(burst)
            if self._resuming is not None:
                # Before, since nobody can say how much of it a stream that breaks now has taken.
                self._resuming.kept.add(piece)
            await self._stream.send(piece)
        self._sending = False

    @property
    def _held_up(self) -> bool:
        return self._resuming is not None and self._resuming.congested

    async def _watch(self) -> None:
        silent = 0
        while True:
            await anyio.sleep(self._heartbeat_s)
            if self._heard:
                self._heard, silent = False, 0
                continue
            seconds = self._heartbeat_s * (silent + 1)
            if silent and (gone := await self._asked()) is not None:
                self._give_up(gone)
                return
            # Counting questions rather than seconds, a host that was itself held up does not blame the sandbox.
            if silent >= self._missed:
                if self._resuming is not None:
                    # It lives: then it is the stream that carries nothing any more.
                    raise anyio.BrokenResourceError
                self._give_up(SandboxGone(f"the sandbox's runtime has not answered for {seconds:g} s"))
                return
            silent += 1
            self.send(wire.frame(wire.PING, 0))

    async def _asked(self) -> SandboxGone | None:
        with anyio.move_on_after(EXPLAIN_S):
            try:
                return await self._stalled()
            except HostError:
                # Whoever could tell does not answer either.
                return None
        return None


def _checked_greeting(greeting: Any) -> dict[str, Any]:
    if not isinstance(greeting, dict) or not isinstance(greeting.get("pid"), int):
        raise wire.Malformed("its hello is not one")
    if greeting.get("protocol") != wire.PROTOCOL:
        raise wire.Malformed(f"it speaks version {greeting.get('protocol')!r}, not {wire.PROTOCOL}")
    return greeting
