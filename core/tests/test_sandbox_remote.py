"""Python calls in a sandbox that is a plain child process."""

from __future__ import annotations

import importlib
import logging
import math
import os
import signal
import sys
import time
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import anyio
import pytest

from agentix.errors import RemoteError, ResultError, SandboxGone, UsageError, WorkerExited
from agentix.models import SandboxConfig
from agentix.sandbox import HostProcessProvider, Sandbox

pytestmark = pytest.mark.anyio

sys.path.append(str(Path(__file__).parent / "functions"))
calls: Any = importlib.import_module("remote_functions")


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int, str]]:
    return [record for record in caplog.record_tuples if record[0].startswith("agentix.sandbox.host-process-")]


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(condition: Any) -> None:
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - another process makes it true
            await anyio.sleep(0.01)


async def test_functions_of_both_kinds_are_called_with_their_arguments(sandbox: Sandbox) -> None:
    assert await sandbox.remote(calls.nothing) is None
    assert await sandbox.remote(calls.add, 2, b=5) == 7
    assert await sandbox.remote(calls.add_blocking, 2, b=5) == 7
    assert await sandbox.call(calls.add, (2,), {"b": 5}, timeout_s=60) == 7
    assert await sandbox.remote(calls.decorated, 4) == 8
    assert await sandbox.remote(calls.run_a_loop) == 5
    assert await sandbox.remote(calls.returns_awaitable) == 8
    assert await sandbox.remote(math.sqrt, 9) == 3
    assert await sandbox.remote(calls.parameter_unresolved, 3) == 3


async def test_results_are_of_the_types_that_the_annotation_says(sandbox: Sandbox) -> None:
    item = replace(calls.ITEM, parent=calls.ITEM)
    received = await sandbox.remote(calls.item)
    assert received == item
    assert isinstance(received.place, calls.Place)
    assert await sandbox.remote(calls.model) == calls.model()
    assert await sandbox.remote(calls.items) == {calls.ITEM}
    assert await sandbox.remote(calls.listed) == [1, 2]
    many = await sandbox.remote(calls.many)
    assert many == calls.many()
    assert [type(value) for value in many[1, "a"]][:3] == [Decimal, UUID, date]
    assert many[1, "a"][4] == timedelta(-1, 5, 7)


async def test_results_without_an_annotation_are_plain_data(sandbox: Sandbox) -> None:
    value = {"a": [1, 2.5, None, True, "\ud800 \udcff ü", b"\x00"], 5: (1, {2}, frozenset({3}))}
    assert await sandbox.remote(calls.untyped, value) == value
    assert await sandbox.remote(calls.same, calls.ITEM) == {
        **{k: v for k, v in vars(calls.ITEM).items() if k != "size"},
        "color": "blue",
        "place": (1, 0),
    }
    assert await sandbox.remote(calls.everything) == [[1], b"x", b"y", (1,), "red", 1 << 100, -(1 << 100)]
    assert math.isnan(await sandbox.remote(calls.same, math.nan))


async def test_what_is_no_data_is_refused_by_type_and_path(sandbox: Sandbox) -> None:
    with pytest.raises(ResultError, match=r"result\['a'\]\[1\]\['b'\] is of type object: it is no plain data"):
        await sandbox.remote(calls.unlowerable)
    with pytest.raises(ResultError, match=r"result.* nested more than 100 deep, or holds itself"):
        await sandbox.remote(calls.itself)


async def test_a_result_that_is_not_what_the_annotation_says_is_an_error(sandbox: Sandbox) -> None:
    with pytest.raises(ResultError, match=r"wrong returned something else .* result\[1\]: Input should be a valid int"):
        await sandbox.remote(calls.wrong)


@pytest.mark.parametrize("function", ["large", "large_async"])
async def test_a_result_over_its_limit_is_refused_in_the_sandbox(sandbox: Sandbox, function: str) -> None:
    with pytest.raises(ResultError, match=rf"the result of {function} is larger than 100000 bytes"):
        await sandbox.call(getattr(calls, function), (200_000,), result_limit=100_000)
    assert len(await sandbox.call(getattr(calls, function), (99_000,), result_limit=100_000)) == 99_000


@pytest.mark.parametrize("function", ["echo", "echo_blocking"])
async def test_arguments_and_results_of_any_size_arrive_whole(sandbox: Sandbox, function: str) -> None:
    for size in (0, 32_000, 33_000, 70_000, 1 << 20, (5 << 20) + 7):
        value = os.urandom(size)
        assert await sandbox.remote(getattr(calls, function), value) == value


async def test_an_exception_comes_back_as_text(sandbox: Sandbox) -> None:
    with pytest.raises(RemoteError) as caught:
        await sandbox.remote(calls.fail)
    error = caught.value
    assert (error.type, error.remote_message) == ("ValueError", "no \\x1b[31mvalue")
    assert "KeyError: 'key'" in error.traceback
    assert "remote_functions.py" in error.traceback
    assert "agentix/runtime" not in error.traceback
    assert "In the sandbox:" in error.__notes__[0]


async def test_leaving_the_interpreter_is_an_exception_like_any_other(sandbox: Sandbox) -> None:
    before = await sandbox.remote(calls.worker_pid)
    for function, message in ((calls.leave, "SystemExit: 4"), (calls.leave_blocking, "SystemExit: bye")):
        with pytest.raises(RemoteError, match=message):
            await sandbox.remote(function)
    with pytest.raises(RemoteError, match="CancelledError"):
        await sandbox.remote(calls.cancel_itself)
    assert await sandbox.remote(calls.worker_pid) == before


async def test_a_blocking_function_that_dies_ends_nothing_else(sandbox: Sandbox) -> None:
    before = await sandbox.remote(calls.worker_pid)
    for number in (signal.SIGSEGV, signal.SIGKILL):
        with pytest.raises(WorkerExited, match=rf"ran die was ended by {number.name}") as caught:
            await sandbox.remote(calls.die, int(number))
        assert (caught.value.signal, caught.value.exit_code, caught.value.oom) == (number.name, None, False)
    with pytest.raises(WorkerExited, match="ended with exit code 3") as caught:
        await sandbox.remote(calls.end, 3)
    assert caught.value.exit_code == 3
    with pytest.raises(WorkerExited, match="SIGSEGV"):
        await sandbox.remote(calls.crash)
    assert await sandbox.remote(calls.worker_pid) == before


async def test_a_worker_that_dies_ends_its_calls_and_is_started_again(sandbox: Sandbox, tmp_path: Path) -> None:
    before = await sandbox.remote(calls.worker_pid)
    errors: list[WorkerExited] = []

    async def waiting() -> None:
        try:
            await sandbox.remote(calls.wait, str(tmp_path / "waiting"))
        except WorkerExited as error:
            errors.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(waiting)
        await until((tmp_path / "waiting").exists)
        with pytest.raises(WorkerExited, match="ended with exit code 9"):
            await sandbox.remote(calls.quit_worker)
    assert [error.exit_code for error in errors] == [9]
    assert await sandbox.remote(calls.worker_pid) != before
    await sandbox.kill_all()
    assert await sandbox.remote(calls.add, 1) == 2


@pytest.mark.parametrize("how", ["timeout", "cancel"])
async def test_a_blocking_call_that_is_ended_is_dead_with_all_it_started(
    sandbox: Sandbox, tmp_path: Path, how: str
) -> None:
    path = tmp_path / "pids"
    await sandbox.remote(calls.nothing)
    if how == "timeout":
        with pytest.raises(TimeoutError, match=r"sleep took longer than 3 s in sandbox host-process-"):
            await sandbox.call(calls.sleep, (str(path),), timeout_s=3)
    else:
        async with anyio.create_task_group() as group:
            group.start_soon(sandbox.remote, calls.sleep, str(path))
            await until(lambda: path.exists() and path.read_text().count(" "))
            group.cancel_scope.cancel()
    pids = [int(word) for word in path.read_text().split()]
    assert len(pids) == 2
    assert [pid for pid in pids if lives(pid)] == []


async def test_a_call_that_is_ended_takes_along_what_is_another_process_all_the_time(sandbox: Sandbox) -> None:
    mark = f"hops-{os.getpid()}"
    await sandbox.remote(calls.nothing)
    async with anyio.create_task_group() as group:
        group.start_soon(sandbox.remote, calls.hop, mark)
        await until(lambda: hopping(mark))
        group.cancel_scope.cancel()
    assert not any(hopping(mark) for _ in range(20))


def hopping(mark: str) -> bool:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            lines.append(path.read_bytes())
    return any(mark.encode() in line for line in lines)


async def test_an_async_call_that_is_ended_runs_its_cleanup(sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "state"
    await sandbox.remote(calls.nothing)
    with pytest.raises(TimeoutError, match="was ended"):
        await sandbox.call(calls.wait, (str(path),), timeout_s=3)
    assert path.read_text() == "ended"


@pytest.mark.parametrize("function", ["block", "ignore_cancellation"])
async def test_an_async_call_that_will_not_end_ends_with_its_worker(sandbox: Sandbox, function: str) -> None:
    before = await sandbox.remote(calls.worker_pid)
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        await sandbox.call(getattr(calls, function), timeout_s=2)
    assert time.monotonic() - started < 60
    assert not lives(before)
    assert await sandbox.remote(calls.add, 1) == 2


async def test_a_generator_gives_its_items_as_they_come(sandbox: Sandbox) -> None:
    assert [number async for number in sandbox.remote_iter(calls.count, 1000)] == list(range(1000))
    assert [number async for number in sandbox.remote_iter(calls.count_blocking, 1000)] == list(range(1000))
    assert [number async for number in sandbox.remote_iter(calls.several)] == [4, 5]
    assert [number async for number in sandbox.remote_iter(calls.count, 0)] == []
    received = []
    with pytest.raises(RemoteError, match="ValueError: enough"):
        async for item in sandbox.remote_iter(calls.items_then_failure):
            received.append(item)
    assert received == [calls.ITEM]


@pytest.mark.parametrize("function", ["forever", "forever_blocking"])
async def test_an_iteration_that_is_left_ends_its_generator(sandbox: Sandbox, tmp_path: Path, function: str) -> None:
    path = tmp_path / "state"
    async with aclosing(sandbox.remote_iter(getattr(calls, function), str(path))) as items:
        async for item in items:
            assert len(item) == 100_000
            break
    state = path.read_text()
    assert state == "closed" if function == "forever" else not lives(int(state))


async def test_thousands_of_calls_run_at_once(sandbox: Sandbox) -> None:
    results: list[int] = []

    async def one(number: int, function: Any) -> None:
        results.append(await sandbox.remote(function, number))

    async with anyio.create_task_group() as group:
        for number in range(2000):
            group.start_soon(one, number, calls.add)
        for number in range(40):
            group.start_soon(one, number, calls.add_blocking)
    assert sorted(results) == sorted([*range(1, 2001), *range(1, 41)])


async def test_logs_and_prints_arrive_under_the_sandboxs_own_logger(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await sandbox.remote(calls.talk_async)
    await sandbox.remote(calls.talk)
    expected = {
        (logging.INFO, "to stdout"),
        (logging.WARNING, "to stderr"),
        (logging.ERROR, "agentix.records: from a logger"),
        (logging.INFO, "async"),
        (logging.INFO, "own: info"),
        (logging.WARNING, "own: from a thread"),
    }
    name = f"agentix.sandbox.{sandbox.id}"
    await until(lambda: expected <= {(level, text) for found, level, text in logged(caplog) if found == name})
    await until(lambda: any(text.startswith("no newline") for _, _, text in logged(caplog)))
    await until(lambda: any("from a child" in text for _, _, text in logged(caplog)))
    assert "agentix.records" not in {record.name for record in caplog.records}


async def test_prints_are_logged_before_the_call_returns(sandbox: Sandbox, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for number in range(20):
        await sandbox.remote(calls.chatter, 3)
        assert len(logged(caplog)) == 3 * (number + 1)


async def test_no_line_of_the_sandbox_looks_like_one_of_the_host(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    await sandbox.remote(calls.forge_a_line)
    ((_, _, text),) = logged(caplog)
    assert text == "x\n    y: first\n    ERROR root: forged \\x1b[2J"


async def test_too_much_output_is_left_out_and_holds_up_nobody(
    sandbox: Sandbox, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    # With each second that this takes, more of it is let in.
    monkeypatch.setattr("agentix.sandbox.replay.time", SimpleNamespace(monotonic=lambda: 0.0))
    with anyio.fail_after(60):
        assert await sandbox.remote(calls.chatter, 300_000) == 300_000
    assert len(logged(caplog)) < 10_000


async def test_levels_below_the_hosts_are_not_sent(sandbox: Sandbox, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    await sandbox.remote(calls.talk_async)
    assert logged(caplog) == []


async def test_context_variables_that_are_declared_travel_along(sandbox: Sandbox) -> None:
    from agentix.sandbox import context_var

    assert await sandbox.remote(calls.trace) == "none"
    token = calls.TRACE.set("abc")
    late: Any = context_var("tests.late", default=None)
    late_token = late.set({"a": 1})
    try:
        assert await sandbox.remote(calls.trace) == "abc"
        assert await sandbox.remote(calls.trace_async) == "abc"
        assert await sandbox.remote(calls.late) == {"a": 1}
    finally:
        calls.TRACE.reset(token)
        late.reset(late_token)
    assert await sandbox.remote(calls.trace_async) == "none"


async def test_what_cannot_be_pickled_is_named(sandbox: Sandbox) -> None:
    with pytest.raises(UsageError, match="argument 2 of same, of type generator, cannot be pickled"):
        await sandbox.call(calls.same, (1, (x for x in ())))
    with pytest.raises(UsageError, match="argument 'b' of add, of type lock, cannot be pickled"):
        await sandbox.remote(calls.add, 1, b=__import__("threading").Lock())


async def test_a_function_that_the_sandbox_cannot_load_says_what_is_missing(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sandbox.remote(calls.nothing)
    (tmp_path / "only_here.py").write_text("def function() -> None: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("only_here")
    with pytest.raises(RemoteError, match="ModuleNotFoundError: No module named 'only_here'") as caught:
        await sandbox.remote(module.function)
    assert "could not be loaded in the sandbox" in str(caught.value)


@pytest.mark.parametrize(("number", "value"), [("timeout_s", 0), ("timeout_s", -1), ("result_limit", 0)])
async def test_options_that_make_no_sense_are_refused(sandbox: Sandbox, number: str, value: int) -> None:
    with pytest.raises(ValueError, match=number):
        await sandbox.call(calls.nothing, **{number: value})


async def test_threads_that_a_call_leaves_running_keep_nothing(sandbox: Sandbox) -> None:
    assert await sandbox.remote(calls.start_thread) >= 2
    assert await sandbox.remote(calls.add_blocking, 1) == 2


async def test_calls_end_with_their_sandbox() -> None:
    async with HostProcessProvider().session(SandboxConfig()) as sandbox:
        worker = await sandbox.remote(calls.worker_pid)
        await sandbox.remote(calls.start_thread)
    assert not lives(worker)
    with pytest.raises(SandboxGone):
        await sandbox.remote(calls.nothing)
