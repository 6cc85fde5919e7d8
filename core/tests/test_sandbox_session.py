# ruff: noqa: ASYNC240
from __future__ import annotations

import os
import resource
import threading
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentix.errors import EnvFailed, HostError, Unsupported
from agentix.models import RuntimeMount, SandboxConfig, SandboxInfo
from agentix.sandbox import HostProcessProvider, Sandbox, SocketStream

pytestmark = pytest.mark.anyio


class Recording(HostProcessProvider):
    """Real sandboxes whose steps can be made to fail."""

    def __init__(self, *, fail: Mapping[str, BaseException] | None = None, eager: bool = False) -> None:
        super().__init__()
        self.steps: list[str] = []
        self.fail = dict(fail or {})
        self.connects_lazily = not eager

    def _step(self, name: str) -> None:
        self.steps.append(name)
        if name in self.fail:
            raise self.fail[name]

    async def create(self, config: SandboxConfig, runtime: RuntimeMount) -> SandboxInfo:
        self._step("create")
        return await super().create(config, runtime)

    async def dial(self, sandbox_id: str) -> SocketStream:
        self._step("dial")
        stream = await super().dial(sandbox_id)
        assert isinstance(stream, SocketStream)
        return stream

    async def delete(self, sandbox_id: str) -> None:
        await super().delete(sandbox_id)
        self._step("delete")


async def test_a_sandbox_that_is_never_used_costs_no_process_and_no_directory() -> None:
    provider = Recording()
    async with provider.session(SandboxConfig()) as sandbox:
        assert sandbox.alive
        assert not Path(sandbox.workdir).exists()
    assert provider.steps == ["create", "delete"]


async def test_a_sandbox_is_dialled_once_however_many_calls_come_first() -> None:
    provider = Recording()
    async with provider.session(SandboxConfig()) as sandbox, anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(sandbox.exec, "true")
    assert provider.steps == ["create", "dial", "delete"]


class Slow(Recording):
    """Its sandboxes answer when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.dialled, self.may_go_on = anyio.Event(), anyio.Event()

    async def dial(self, sandbox_id: str) -> SocketStream:
        stream = await super().dial(sandbox_id)
        self.dialled.set()
        try:
            await self.may_go_on.wait()
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise
        return stream


async def first_call_cancelled(provider: Slow, sandbox: Sandbox) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(sandbox.exec, "true")
        await provider.dialled.wait()
        group.cancel_scope.cancel()


async def test_where_the_first_call_is_cancelled_while_it_dials_the_next_one_finds_the_stream() -> None:
    provider = Slow()
    async with provider.session(SandboxConfig()) as sandbox:
        await first_call_cancelled(provider, sandbox)
        provider.may_go_on.set()
        assert (await sandbox.exec("echo here")).text == "here\n"
    assert provider.steps == ["create", "dial", "delete"]


async def test_a_session_ends_though_its_sandbox_is_still_dialled_for_a_call_that_was_cancelled() -> None:
    provider = Slow()
    with anyio.fail_after(60):
        async with provider.session(SandboxConfig()) as sandbox:
            await first_call_cancelled(provider, sandbox)
    assert provider.steps == ["create", "dial", "delete"]
    assert sandbox.unreleased is None
    assert not Path(sandbox.workdir).exists()


async def test_after_the_session_nothing_is_left() -> None:
    provider = Recording(eager=True)
    async with provider.session(SandboxConfig()) as sandbox:
        assert provider.steps == ["create", "dial"]
        await sandbox.write_file("locked/file", b"")
        await sandbox.exec("chmod 0 locked")
        assert Path(sandbox.workdir).stat().st_mode & 0o777 == 0o700
        assert [info.id for info in await provider.list({})] == [sandbox.id]
    assert not Path(sandbox.workdir).exists()
    assert await provider.list({}) == []
    assert sandbox.unreleased is None
    assert not sandbox.alive
    await provider.delete(sandbox.id)


@pytest.mark.parametrize("eager", [False, True])
async def test_what_the_body_raises_comes_out_as_it_is(eager: bool) -> None:
    provider = Recording(eager=eager)
    error = KeyError("mine")
    with pytest.raises(KeyError) as raised:
        async with provider.session(SandboxConfig()) as sandbox:
            await sandbox.exec("true")
            raise error
    assert raised.value is error
    assert provider.steps[-1] == "delete"


async def test_cancelling_the_body_deletes_the_sandbox_and_stays_a_cancellation() -> None:
    provider = Recording()
    reached = False
    with anyio.CancelScope() as scope:
        async with provider.session(SandboxConfig()) as sandbox:
            await sandbox.exec("true")
            scope.cancel()
            await anyio.sleep(100)
        reached = True
    assert scope.cancelled_caught
    assert not reached
    assert provider.steps[-1] == "delete"
    assert await provider.list({}) == []


async def test_a_time_limit_around_a_session_still_cleans_up() -> None:
    provider = Recording()
    with pytest.raises(TimeoutError):
        with anyio.fail_after(60) as limit:
            async with (
                provider.session(SandboxConfig()) as sandbox,
                sandbox.stream("echo on; sleep 1000") as running,
            ):
                assert (await anext(running)).data == b"on\n"
                limit.deadline = anyio.current_time()
                await running.wait()
    assert provider.steps[-1] == "delete"
    assert not Path(sandbox.workdir).exists()


async def test_a_create_that_fails_is_the_error() -> None:
    error = EnvFailed("no such image", detail="image_pull")
    provider = Recording(fail={"create": error})
    with pytest.raises(EnvFailed) as raised:
        async with provider.session(SandboxConfig()):
            pytest.fail("there is no sandbox")
    assert raised.value is error
    assert provider.steps == ["create"]


async def test_a_dial_that_fails_deletes_what_was_created() -> None:
    error = HostError("no way in")
    provider = Recording(fail={"dial": error}, eager=True)
    with pytest.raises(HostError) as raised:
        async with provider.session(SandboxConfig()):
            pytest.fail("there is no sandbox")
    assert raised.value is error
    assert provider.steps == ["create", "dial", "delete"]


async def test_the_first_error_is_raised_and_the_later_one_is_told_with_it() -> None:
    provider = Recording(fail={"dial": HostError("no way in"), "delete": HostError("it will not go")}, eager=True)
    with pytest.raises(HostError, match="no way in") as raised:
        async with provider.session(SandboxConfig()):
            pytest.fail("there is no sandbox")
    assert "it will not go" in raised.value.__notes__[0]
    unreleased = raised.value.unreleased  # type: ignore[attr-defined]
    assert (unreleased.provider, unreleased.message) == ("host-process", "it will not go")


async def test_a_deletion_that_fails_once_is_tried_again() -> None:
    class Busy(Recording):
        async def delete(self, sandbox_id: str) -> None:
            self.steps.append("delete")
            if self.steps.count("delete") == 1:
                raise HostError("busy")
            await HostProcessProvider.delete(self, sandbox_id)

    provider = Busy(fail={"dial": HostError("no way in")}, eager=True)
    with pytest.raises(HostError, match="no way in") as raised:
        async with provider.session(SandboxConfig()):
            pytest.fail("there is no sandbox")
    assert provider.steps == ["create", "dial", "delete", "delete"]
    assert await provider.list({}) == []
    assert not hasattr(raised.value, "unreleased")


async def test_a_deletion_that_keeps_failing_is_told_by_its_first_error() -> None:
    class Refusing(Recording):
        async def delete(self, sandbox_id: str) -> None:
            self.steps.append("delete")
            raise HostError(f"refused {self.steps.count('delete')}")

    provider = Refusing()
    async with provider.session(SandboxConfig()) as sandbox:
        pass
    assert sandbox.unreleased is not None
    assert sandbox.unreleased.message == "refused 1"
    await HostProcessProvider.delete(provider, sandbox.id)


async def test_a_failed_deletion_does_not_lose_what_was_done() -> None:
    provider = Recording(fail={"delete": HostError("it will not go")})
    async with provider.session(SandboxConfig()) as sandbox:
        result = await sandbox.exec("echo worth keeping")
    assert result.text == "worth keeping\n"
    assert sandbox.unreleased is not None
    assert (sandbox.unreleased.id, sandbox.unreleased.message) == (sandbox.id, "it will not go")


async def test_a_failed_deletion_does_not_replace_the_error_of_the_body() -> None:
    provider = Recording(fail={"delete": HostError("it will not go")})
    opened: list[Sandbox] = []
    with pytest.raises(KeyError, match="mine"):
        async with provider.session(SandboxConfig()) as sandbox:
            opened.append(sandbox)
            raise KeyError("mine")
    assert opened[0].unreleased is not None


async def test_a_deletion_that_hangs_is_given_up_in_time() -> None:
    class Hanging(Recording):
        async def delete(self, sandbox_id: str) -> None:
            await anyio.sleep(1000)

    provider = Hanging()
    provider.teardown_s = 0.05
    with anyio.fail_after(60):
        async with provider.session(SandboxConfig()) as sandbox:
            pass
    assert sandbox.unreleased is not None
    assert "more than 0.05 s" in sandbox.unreleased.message


async def test_a_server_that_will_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentix.sandbox.host_process._EXIT_S", 0.3)
    provider = Recording()
    async with provider.session(SandboxConfig()) as sandbox:
        await sandbox.exec("true")
        os.kill(provider._sandboxes[sandbox.id].process.pid, 19)  # type: ignore[union-attr]
    assert sandbox.unreleased is None
    assert not Path(sandbox.workdir).exists()


@pytest.mark.parametrize("field", [{"memory_mb": 100}, {"cpus": 1}, {"user": "agent"}, {"pids": 5}, {"gpus": 1}])
async def test_what_a_plain_process_cannot_have_is_refused_by_name(field: dict[str, object]) -> None:
    config = SandboxConfig.model_validate(field)
    with pytest.raises(Unsupported, match=next(iter(field))):
        async with HostProcessProvider().session(config):
            pass


async def test_a_working_directory_may_be_relative_to_the_sandbox() -> None:
    async with HostProcessProvider().session(SandboxConfig(workdir="repo")) as sandbox:
        await sandbox.make_dirs(".")
        assert (await sandbox.exec("pwd")).text.strip().endswith("/repo")


async def test_sandboxes_need_no_threads() -> None:
    # Not their number: one that an earlier test has left idle may end meanwhile.
    before = set(threading.enumerate())
    provider = HostProcessProvider()
    async with AsyncExitStack() as stack:
        for _ in range(5):
            sandbox = await stack.enter_async_context(provider.session(SandboxConfig()))
            await sandbox.exec("true")
        assert set(threading.enumerate()) <= before


async def test_sandboxes_are_listed_by_their_labels() -> None:
    provider = HostProcessProvider()
    async with provider.session(SandboxConfig(labels={"run": "r", "trial": "t"})) as sandbox:
        assert [info.id for info in await provider.list({"run": "r"})] == [sandbox.id]
        assert await provider.list({"run": "other"}) == []


async def test_too_few_open_files_is_an_error_that_says_what_to_do() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    provider = HostProcessProvider()
    async with provider.session(SandboxConfig()) as sandbox:
        # By the lowest free number and not by how many are open: there may be gaps below the highest.
        os.close(free := os.dup(0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, hard))
        try:
            with pytest.raises(HostError, match="ulimit -n"):
                await sandbox.exec("true")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert (await sandbox.exec("true")).ok
    assert sandbox.unreleased is None


class Doubtful(Recording):
    """Finds the first so many of its sandboxes to be no good."""

    def __init__(self, bad: int, **options: Any) -> None:
        super().__init__(**options)
        self.bad = bad
        self.asked: list[tuple[str, object]] = []

    def misstarted(self, sandbox_id: str, greeting: Mapping[str, Any]) -> HostError | None:
        self.asked.append((sandbox_id, greeting["root"]))
        return HostError(f"{sandbox_id} is no good") if len(self.asked) <= self.bad else None


async def test_a_sandbox_that_started_wrong_is_deleted_and_another_one_given() -> None:
    provider = Doubtful(2, eager=True)
    with pytest.raises(ValueError, match="the body's"):
        async with provider.session(SandboxConfig()) as sandbox:
            assert (await sandbox.exec("echo here")).text == "here\n"
            assert [info.id for info in await provider.list({})] == [sandbox.id]
            raise ValueError("the body's")
    assert provider.steps == ["create", "dial", "delete"] * 3
    kind, directory = next(
        (words[words.index("-") + 1], words[3])
        for words in map(str.split, Path("/proc/self/mountinfo").read_text().splitlines())
        if words[4] == "/"
    )
    assert [root for _, root in provider.asked] == [[kind, directory]] * 3
    assert sandbox.id == provider.asked[-1][0]


async def test_where_every_sandbox_starts_wrong_the_last_reason_is_raised() -> None:
    provider = Doubtful(9, eager=True)
    with pytest.raises(HostError) as caught:
        async with provider.session(SandboxConfig()):
            pytest.fail("no sandbox is good")
    assert caught.value.message == f"{provider.asked[-1][0]} is no good"
    assert provider.steps == ["create", "dial", "delete"] * 3


async def test_a_sandbox_that_started_wrong_and_cannot_be_deleted_is_not_followed_by_another() -> None:
    provider = Doubtful(9, eager=True, fail={"delete": HostError("the engine hangs")})
    with pytest.raises(HostError, match="is no good") as caught:
        async with provider.session(SandboxConfig()):
            pytest.fail("no sandbox is good")
    assert caught.value.unreleased.message == "the engine hangs"  # type: ignore[attr-defined]
    assert provider.steps.count("create") == 1


async def test_a_sandbox_that_is_dialled_at_its_first_call_says_there_that_it_started_wrong() -> None:
    provider = Doubtful(1)
    async with provider.session(SandboxConfig()) as sandbox:
        with pytest.raises(HostError, match="is no good"):
            await sandbox.exec("true")
