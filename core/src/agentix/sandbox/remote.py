"""Python calls in a sandbox: what is sent, and what is made of the answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from agentix.errors import RemoteCallError, RemoteError, ResultError, UsageError, WorkerExited
from agentix.runtime import answer, plain, wire
from agentix.sandbox.command import signal_name
from agentix.sandbox.function import Main, find_main, refer
from agentix.sandbox.pickling import Pickled, pickled
from agentix.sandbox.python_worker import TOTAL
from agentix.sandbox.rebuilding import rebuilder
from agentix.sandbox.replay import printable

if TYPE_CHECKING:
    from agentix.sandbox.call import Call
    from agentix.sandbox.python_worker import PythonWorker, Running

RESULT_LIMIT = 256 << 20
"""How many bytes a result may have where no limit is given; each value inside counts for 64 more."""

_ATTEMPTS = 3
_SMALL = 1 << 18
"""A larger result is read in a thread, beside the loop."""
_MAX_TEXT = 1 << 17


@dataclass(frozen=True, kw_only=True)
class Request:
    """A call, ready to be sent."""

    function: str
    payload: Pickled
    rebuild: Callable[[Any], Any]
    iterate: bool
    limit: int
    name: str
    main: Main | None


def request(
    worker: PythonWorker,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    iterate: bool,
    limit: int | None,
) -> Request:
    """Look at everything that can be wrong before anything is sent.

    Raises:
        UsageError: The function cannot be called in a sandbox, an argument cannot be pickled, or results of that
            annotation cannot be rebuilt.
        ValueError: The limit is not positive.
    """
    if limit is not None and limit <= 0:
        raise ValueError(f"result_limit is {limit}; it must be more than 0")
    reference = refer(function, worker.place, iterate=iterate)
    rebuild = rebuilder(function, iterate=iterate)
    payload = pickled(function, tuple(args), dict(kwargs))
    main = reference.main
    if main is None and payload.names_main() and _has_main(worker):
        main = find_main(worker.place, what="the class of an argument")
    return Request(
        function=reference.name,
        payload=payload,
        rebuild=rebuild,
        iterate=iterate,
        limit=limit or RESULT_LIMIT,
        name=function.__qualname__,
        main=main,
    )


async def invoke(worker: PythonWorker, asked: Request) -> Any:
    """Make a call and give its result; see `Sandbox.call`."""
    for _ in range(_ATTEMPTS):
        running = await worker.running()
        collected = bytearray()
        running.calls += 1
        try:
            async with _begin(running, worker, asked) as call:
                await _send(call, asked)
                while (received := await call.receive()) is not None:
                    collected += received[1]
                    worker.incoming += len(received[1])
                    if len(collected) > asked.limit:
                        raise _too_large(asked)
                    if worker.incoming > TOTAL:
                        raise ResultError(f"the results under way from this sandbox are more than {TOTAL} bytes")
                told = await call.result()
            await running.heard()
            if told == answer.ABSENT:
                await _gone(worker, running)
                continue
            return await _outcome(told, collected, asked)
        finally:
            running.calls -= 1
            worker.incoming -= len(collected)
    raise _exited(_decoded(running.exit[1:]) if isinstance(running.exit, bytes) else {}, asked)


async def iterate(worker: PythonWorker, asked: Request) -> AsyncGenerator[Any, None]:
    """Make a call and give its items as they come; see `Sandbox.remote_iter`."""
    for _ in range(_ATTEMPTS):
        running = await worker.running()
        waiting = bytearray()
        running.calls += 1
        try:
            async with _begin(running, worker, asked) as call:
                await _send(call, asked)
                while (received := await call.receive()) is not None:
                    waiting += received[1]
                    while (raw := _next_item(waiting, asked)) is not None:
                        yield await _value(raw, asked)
                told = await call.result()
            await running.heard()
        finally:
            running.calls -= 1
        if told == answer.ABSENT:
            await _gone(worker, running)
            continue
        if told != answer.SENT or waiting:
            raise _failure(told, asked)
        return
    raise _exited(_decoded(running.exit[1:]) if isinstance(running.exit, bytes) else {}, asked)


def _next_item(waiting: bytearray, asked: Request) -> bytes | None:
    """Take the first item that has arrived whole."""
    if len(waiting) < 4:
        return None
    size = int.from_bytes(waiting[:4], "big")
    if size > asked.limit:
        raise _too_large(asked)
    if len(waiting) < 4 + size:
        return None
    raw = bytes(waiting[4 : 4 + size])
    del waiting[: 4 + size]
    return raw


def _begin(running: Running, worker: PythonWorker, asked: Request) -> Call:
    inline = asked.payload.size <= answer.INLINE
    return running.connection.call(
        "python",
        {
            "worker": running.id,
            "name": asked.function,
            "input": asked.payload.joined if inline else None,
            "iterate": asked.iterate,
            "limit": asked.limit,
            "level": worker.log_level,
            "main": None if asked.main is None else asked.main.plain,
        },
    )


async def _send(call: Call, asked: Request) -> None:
    if asked.payload.size <= answer.INLINE:
        return
    for piece in asked.payload.pieces:
        if not await call.send(piece):
            return
    call.end_input()


async def _gone(worker: PythonWorker, running: Running) -> None:
    """The process had ended before it got the call: why, where it could not even be started."""
    worker.retire(running)
    await running.ended.wait()
    if running.failure is not None:
        raise running.failure


async def _outcome(told: Any, collected: bytearray, asked: Request) -> Any:
    if isinstance(told, bytes):
        if told[:1] == answer.VALUE and not collected:
            return await _value(memoryview(told)[1:], asked)
        if told == answer.SENT:
            return await _value(collected, asked)
    raise _failure(told, asked)


async def _value(raw: bytes | bytearray | memoryview, asked: Request) -> Any:
    if len(raw) <= _SMALL:
        return _rebuilt(raw, asked)
    return await anyio.to_thread.run_sync(_rebuilt, raw, asked, abandon_on_cancel=True)


def _rebuilt(raw: bytes | bytearray | memoryview, asked: Request) -> Any:
    try:
        value = plain.decode(raw, limit=asked.limit)
    except plain.TooLarge:
        raise _too_large(asked) from None
    except wire.Malformed as error:
        raise ResultError(f"the sandbox answered the call of {asked.name} with what is no value: {error}") from None
    return asked.rebuild(value)


def _too_large(asked: Request) -> ResultError:
    return ResultError(
        f"the result of {asked.name} is larger than {asked.limit} bytes",
        hint="write it to a file and download that, or raise result_limit of sandbox.call",
    )


def _failure(told: Any, asked: Request) -> RemoteCallError:
    """The error that an answer tells of, with nothing in it but text."""
    kind, body = (told[:1], told[1:]) if isinstance(told, bytes) else (b"", b"")
    if kind == answer.LARGE:
        return _too_large(asked)
    report = _decoded(body)
    if kind == answer.RAISED:
        kind_of, message, traceback = (_text(report, key) for key in ("type", "message", "traceback"))
        hint = None
        if report.get("loading") is True:
            hint = f"{asked.name} or its arguments could not be loaded in the sandbox; is all of it in its bundle?"
        return RemoteError(kind_of, message, traceback, hint=hint)
    if kind == answer.UNFIT:
        path, kind_of, reason = (_text(report, key) for key in ("path", "type", "reason"))
        return ResultError(f"the result of {asked.name} cannot be sent: {path} is of type {kind_of}: {reason}")
    if kind == answer.EXITED:
        return _exited(report, asked)
    if kind == answer.CANCELLED:
        return RemoteError("asyncio.exceptions.CancelledError", "the sandbox cancelled the call")
    return ResultError(f"the sandbox answered the call of {asked.name} with what is no answer")


def _exited(report: dict[str, Any], asked: Request) -> WorkerExited:
    status, why, oom = report.get("status"), _text(report, "why"), report.get("oom") is True
    signal = code = None
    if isinstance(status, int) and 0 <= status < 1 << 16:
        if status & 0x7F:
            signal = signal_name(status & 0x7F)
        else:
            code = status >> 8
    how = f"was ended by {signal}" if signal else "ended" if code is None else f"ended with exit code {code}"
    if oom:
        how += ", as the sandbox had no memory left"
    message = f"the process that ran {asked.name} {how}"
    return WorkerExited(f"{message}: {why}" if why else message, signal=signal, exit_code=code, oom=oom)


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        report = wire.decode(body)
    except wire.Malformed:
        return {}
    return report if isinstance(report, dict) else {}


def _text(report: dict[str, Any], key: str) -> str:
    value = report.get(key)
    return printable(value, most=_MAX_TEXT) if isinstance(value, str) else ""


def _has_main(worker: PythonWorker) -> bool:
    try:
        find_main(worker.place, what="")
    except UsageError:
        # The word may be nothing but text; if it is not, the sandbox says so.
        return False
    return True
