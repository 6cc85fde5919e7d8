"""Checks of a provider: sandboxes come, are found, and go without a trace."""

from __future__ import annotations

import anyio
from anyio.abc import ByteStream

from agentix.errors import SandboxGone, TrialError
from agentix.interfaces import SandboxProvider
from agentix.models import Capability, Mount
from agentix.testing.cases import ProviderCase
from agentix.testing.checks import Checks, PromiseBroken, expect, not_applicable
from agentix.testing.provider_sandboxes import LABEL, created, expect_nothing_left, labelled, listed, runtime_for

LIFETIME = Checks("provider")


class _BodyFailed(Exception):
    pass


@LIFETIME.add()
async def says_what_it_is(provider: SandboxProvider, case: ProviderCase) -> None:
    """It has a name and declares its capabilities as a frozenset of `Capability`."""
    expect(isinstance(provider.name, str) and provider.name, f"its name is {provider.name!r}")
    declared = provider.capabilities
    expect(isinstance(declared, frozenset), f"capabilities is a {type(declared).__name__}, not a frozenset")
    unknown = [c for c in declared if not isinstance(c, Capability)]
    expect(not unknown, f"these are no capabilities: {unknown}")


@LIFETIME.add()
async def create_tells_what_it_made(provider: SandboxProvider, case: ProviderCase) -> None:
    """`create` returns an id, the provider's name, the labels and an absolute working directory."""
    config = labelled(case.config)
    async with created(provider, config) as info:
        expect(isinstance(info.id, str) and info.id, f"the id is {info.id!r}")
        expect(info.provider == provider.name, f"info.provider is {info.provider!r}, not {provider.name!r}")
        expect(info.workdir.startswith("/"), f"workdir {info.workdir!r} is not absolute")
        missing = {k: v for k, v in config.labels.items() if info.labels.get(k) != v}
        expect(not missing, f"these labels are lost: {missing}")


@LIFETIME.add()
async def dial_gives_a_stream(provider: SandboxProvider, case: ProviderCase) -> None:
    """`dial` opens a byte stream to a sandbox that was created."""
    async with created(provider, labelled(case.config)) as info:
        stream = await provider.dial(info.id)
        expect(isinstance(stream, ByteStream), f"dial returned a {type(stream).__name__}, not an anyio ByteStream")
        await stream.aclose()


@LIFETIME.add()
async def dial_after_delete_is_gone(provider: SandboxProvider, case: ProviderCase) -> None:
    """`dial` raises `SandboxGone` where there is no such sandbox any more."""
    async with created(provider, labelled(case.config)) as info:
        await provider.delete(info.id)
        try:
            stream = await provider.dial(info.id)
        except SandboxGone:
            return
        await stream.aclose()
        raise PromiseBroken("dial opened a stream to a sandbox that was deleted")


@LIFETIME.add()
async def delete_can_be_repeated(provider: SandboxProvider, case: ProviderCase) -> None:
    """Deleting a sandbox twice is no error."""
    async with created(provider, labelled(case.config)) as info:
        await provider.delete(info.id)
        await provider.delete(info.id)


@LIFETIME.add()
async def list_finds_by_labels(provider: SandboxProvider, case: ProviderCase) -> None:
    """`list` gives the sandboxes that carry all the labels, and no deleted one."""
    config = labelled(case.config)
    async with created(provider, config) as info:
        found = await listed(provider, config)
        expect([i.id for i in found] == [info.id], f"found {[i.id for i in found]}, not just {info.id}")
        both = {LABEL: config.labels[LABEL], "agentix.absent": "1"}
        expect(not await provider.list(both), "a sandbox that lacks one of the labels is found")
        await provider.delete(info.id)
        expect(not await listed(provider, config), "a deleted sandbox is found")


@LIFETIME.add(needs=Capability.LISTING)
async def list_finds_what_others_made(provider: SandboxProvider, case: ProviderCase) -> None:
    """`list` of another provider object finds the sandbox, and its `delete` deletes it."""
    if case.another is None:
        not_applicable("the case makes no second provider object")
    config = labelled(case.config)
    async with created(provider, config) as info:
        other = case.another()
        found = await listed(other, config)
        expect([i.id for i in found] == [info.id], f"the other one found {[i.id for i in found]}, not {info.id}")
        await other.delete(info.id)
        expect(not await listed(provider, config), "it is still there after the other one deleted it")


@LIFETIME.add()
async def session_deletes_at_its_end(provider: SandboxProvider, case: ProviderCase) -> None:
    """A sandbox exists for as long as its session is open."""
    config = labelled(case.config)
    async with provider.session(config) as sandbox:
        found = await listed(provider, config)
        expect([i.id for i in found] == [sandbox.id], f"an open session lists {[i.id for i in found]}")
    await expect_nothing_left(provider, config)


@LIFETIME.add()
async def session_passes_errors_on(provider: SandboxProvider, case: ProviderCase) -> None:
    """An exception in a session's body comes out unchanged, and the sandbox is deleted."""
    config = labelled(case.config)
    try:
        async with provider.session(config):
            raise _BodyFailed
    except _BodyFailed:
        pass
    else:
        raise PromiseBroken("the exception was swallowed")
    await expect_nothing_left(provider, config)


@LIFETIME.add()
async def session_cancelled_is_deleted(provider: SandboxProvider, case: ProviderCase) -> None:
    """Cancelling a session's body deletes the sandbox."""
    config = labelled(case.config)
    with anyio.CancelScope() as scope:
        async with provider.session(config):
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    await expect_nothing_left(provider, config)


@LIFETIME.add()
async def create_cancelled_leaves_nothing(provider: SandboxProvider, case: ProviderCase) -> None:
    """`create` that is cancelled, however early or late, leaves nothing behind."""
    runtime = await runtime_for(provider)
    for seconds in (0.0, 0.001, 0.005, 0.02, 0.08, 0.3):
        config = labelled(case.config)
        made = None
        with anyio.move_on_after(seconds):
            made = await provider.create(config, runtime)
        if made is not None:
            await provider.delete(made.id)
        await expect_nothing_left(provider, config)


@LIFETIME.add()
async def create_failed_leaves_nothing(provider: SandboxProvider, case: ProviderCase) -> None:
    """`create` that cannot succeed raises an error with a failure code and leaves nothing behind."""
    absent = Mount(source="/agentix-check/absent", target="/agentix-check")  # type: ignore[arg-type]
    config = labelled(case.config, mounts=(absent,))
    try:
        info = await provider.create(config, await runtime_for(provider))
    except TrialError as exc:
        expect("mount" in str(exc) or "/agentix-check/absent" in str(exc), f"the error names no cause: {exc}")
    else:
        await provider.delete(info.id)
        raise PromiseBroken("a mount whose source does not exist was ignored")
    await expect_nothing_left(provider, config)


@LIFETIME.add()
async def sandboxes_do_not_wait_for_each_other(provider: SandboxProvider, case: ProviderCase) -> None:
    """Several sandboxes can be open at a time, each with its own id."""
    ids: set[str] = set()
    everyone_is_here = anyio.Event()

    async def one() -> None:
        async with provider.session(labelled(case.config)) as sandbox:
            ids.add(sandbox.id)
            if len(ids) == count:
                everyone_is_here.set()
            await everyone_is_here.wait()

    count = 4
    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(one)


@LIFETIME.add()
async def delete_ends_pending_calls(provider: SandboxProvider, case: ProviderCase) -> None:
    """A command that runs when its sandbox is deleted ends with `SandboxGone`."""
    ended: list[BaseException | None] = []
    async with provider.session(labelled(case.config)) as sandbox, anyio.create_task_group() as group:

        async def pending() -> None:
            try:
                await sandbox.exec("sleep 300")
            except SandboxGone as exc:
                ended.append(exc)
            else:
                ended.append(None)

        await sandbox.exec("true")
        group.start_soon(pending)
        await anyio.wait_all_tasks_blocked()
        await provider.delete(sandbox.id)
    expect(ended and ended[0] is not None, "the pending command gave a result")
