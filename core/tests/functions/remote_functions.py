"""What tests call in a sandbox."""

# ruff: noqa: ASYNC240, ASYNC251 - some of it does what no async function should

from __future__ import annotations

import asyncio
import ctypes
import enum
import fcntl
import functools
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque, namedtuple
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from uuid import UUID

from pydantic import BaseModel, Field, RootModel

from agentix.runtime.context import context_var

if TYPE_CHECKING:
    from nowhere import Missing

TRACE: Any = context_var("tests.trace", default="none")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(NamedTuple):
    x: int
    y: int = 0


@dataclass(frozen=True)
class Item:
    name: str
    when: datetime
    path: Path
    color: Color
    tags: frozenset[str]
    place: Place
    raw: bytes
    parent: Item | None = None
    size: int = field(init=False, default=7)


class Model(BaseModel):
    value: Annotated[int, Field(alias="theValue")]
    items: list[Item] = []
    numbers: RootModel[list[int]] = RootModel[list[int]]([])


ITEM = Item("a", datetime(2026, 1, 2, 3, 4, 5, 6, UTC), Path("/x/y"), Color.BLUE, frozenset("ab"), Place(1), b"\xff")


async def nothing() -> None: ...


async def add(a: int, b: int = 1) -> int:
    return a + b


def add_blocking(a: int, b: int = 1) -> int:
    return a + b


async def item() -> Item:
    return Item(**{**{k: v for k, v in vars(ITEM).items() if k != "size"}, "parent": ITEM})


def model() -> Model:
    return Model(theValue=3, items=[ITEM], numbers=RootModel[list[int]]([1, 2]))


def many() -> dict[tuple[int, str], list[Decimal | UUID | date | clock | timedelta | None]]:
    return {(1, "a"): [Decimal("1.50"), UUID(int=5), date(2026, 1, 2), clock(1, 2), timedelta(-1, 5, 7), None]}


def items() -> set[Item]:
    return {ITEM}


def untyped(value):
    return value


def same(value: Any) -> Any:
    return value


async def echo(value: bytes) -> bytes:
    return value


def echo_blocking(value: bytes) -> bytes:
    return value


def wrong() -> list[int]:
    return [1, "x"]  # type: ignore[list-item]


def listed() -> Iterable[int]:
    return (1, 2)


def unlowerable() -> Any:
    return {"a": [1, {"b": object()}]}


def itself() -> Any:
    values: list[Any] = []
    values.append(values)
    return values


def large(size: int) -> bytes:
    return bytes(size)


async def large_async(size: int) -> bytes:
    return bytes(size)


def fail() -> None:
    try:
        {}["key"]
    except KeyError as error:
        raise ValueError("no \x1b[31mvalue") from error


async def leave() -> None:
    sys.exit(4)


def leave_blocking() -> None:
    sys.exit("bye")


def die(number: int) -> None:
    os.kill(os.getpid(), number)


def end(code: int) -> None:
    os._exit(code)


async def quit_worker() -> None:
    os._exit(9)


async def cancel_itself() -> None:
    raise asyncio.CancelledError


def pid() -> int:
    return os.getpid()


async def worker_pid() -> int:
    return os.getpid()


def run_a_loop() -> int:
    return asyncio.run(add(2, 3))


def returns_awaitable() -> Any:
    return add(4, 4)


def sleep(path: str) -> None:
    child = subprocess.Popen(["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"], start_new_session=True)
    Path(path).write_text(f"{os.getpid()} {child.pid}")
    time.sleep(600)


def hop(mark: str) -> None:
    """Leave something that is another process whenever it is looked at."""
    code = (
        "import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "while True:\n    if os.fork():\n        os._exit(0)"
    )
    subprocess.Popen([sys.executable, "-c", f"{code}  # {mark}"])
    time.sleep(600)


async def wait(path: str) -> None:
    try:
        Path(path).write_text("started")
        await asyncio.sleep(600)
    finally:
        Path(path).write_text("ended")


async def block() -> None:
    time.sleep(600)


async def ignore_cancellation() -> None:
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            continue


async def count(most: int) -> AsyncIterator[int]:
    for number in range(most):
        yield number


def count_blocking(most: int) -> Iterator[int]:
    yield from range(most)


def several() -> list[int]:
    return [4, 5]


async def items_then_failure() -> AsyncIterator[Item]:
    yield ITEM
    raise ValueError("enough")


async def forever(path: str) -> AsyncIterator[bytes]:
    try:
        while True:
            yield bytes(100_000)
    finally:
        Path(path).write_text("closed")


def forever_blocking(path: str) -> Iterator[bytes]:
    Path(path).write_text(str(os.getpid()))
    while True:
        yield bytes(100_000)


def talk() -> None:
    print("to stdout")
    print("no newline", end="")
    print("to stderr", file=sys.stderr)
    logging.getLogger("agentix.records").error("from %s", "a logger")
    os.system("echo from a child")


async def talk_async() -> None:
    print("async")
    logging.getLogger("own").info("info")
    await asyncio.to_thread(logging.getLogger("own").warning, "from a thread")


def forge_a_line() -> None:
    logging.getLogger("x\ny").warning("first\nERROR root: forged \x1b[2J")


def chatter(lines: int) -> int:
    for number in range(lines):
        print("line", number)
    return lines


def trace() -> str:
    return str(TRACE.get())


async def trace_async() -> str:
    return str(TRACE.get())


def late() -> Any:
    variable: Any = context_var("tests.late", default=None)
    return variable.get()


def decorated_by(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@decorated_by
def decorated(a: int) -> int:
    return a * 2


def unresolved() -> Missing: ...


def parameter_unresolved(a: Missing) -> int:
    return a


class Odd:
    def method(self) -> None: ...

    @staticmethod
    def static() -> None: ...


def odd() -> Odd:
    return Odd()


def nested():
    def inner() -> None: ...

    return inner


def stopped_by(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def wire_of_the_worker() -> socket.socket:
    """The socket that the worker speaks on."""
    for name in os.listdir("/proc/self/fd"):
        try:
            raw = socket.socket(fileno=os.dup(int(name)))
            if raw.family == socket.AF_UNIX and fcntl.fcntl(raw.fileno(), fcntl.F_GETFD) is not None:
                raw.getpeername()
                return raw
        except OSError:
            continue
    raise LookupError


async def forge(frames: bytes) -> None:
    raw = wire_of_the_worker()
    raw.setblocking(True)
    raw.sendall(frames)
    await asyncio.sleep(600)


async def flood() -> None:
    raw = wire_of_the_worker()
    raw.setblocking(True)
    while True:
        raw.sendall(bytes(1 << 16))


def forge_in_child(frames: bytes) -> None:
    for name in os.listdir("/proc/self/fd"):
        try:
            raw = socket.socket(fileno=os.dup(int(name)))
            raw.send(frames, socket.MSG_DONTWAIT)
        except OSError:
            continue
    time.sleep(600)


def crash() -> None:
    ctypes.string_at(0)


async def start_thread() -> int:
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return threading.active_count()


def everything() -> Any:
    return [deque([1]), bytearray(b"x"), memoryview(b"y"), namedtuple("N", "a")(1), Color.RED, 1 << 100, -(1 << 100)]
