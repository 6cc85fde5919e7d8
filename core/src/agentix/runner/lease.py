"""One sandbox, from its creation to its confirmed end, held in a task of its own."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from agentix.errors import HostError, SandboxGone, TrialError
from agentix.interfaces import SandboxProvider
from agentix.models import ImageBuild, SandboxConfig
from agentix.runner.boundary import boundary, described
from agentix.runner.phases import Phases, timeout_error

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox


class Lease:
    """Holds one session open until it is told to close.

    A provider's session may keep a task group open for as long as it lasts. Sandboxes do not end in the
    reverse order of their beginning, so each session gets a task in which it is entered and left.
    """

    def __init__(self, provider: SandboxProvider, config: SandboxConfig, phases: Phases) -> None:
        self.config = config
        self.sandbox: Sandbox | None = None
        self.trouble: str | None = None
        """Why the sandbox may still exist."""
        self.released = True
        self._provider = provider
        self._phases = phases
        self._failure: TrialError | None = None
        self._opened = anyio.Event()
        self._closing = anyio.Event()
        self._closed = anyio.Event()
        self._scope = anyio.CancelScope()

    @property
    def alive(self) -> bool:
        """Whether the sandbox was not lost."""
        return self.sandbox is None or self.sandbox.alive

    async def open(self, tasks: TaskGroup) -> Sandbox:
        """Create the sandbox.

        Raises:
            TrialError: It could not be created, or not in time.
        """
        tasks.start_soon(self._hold)
        try:
            await self._opened.wait()
        except BaseException:
            self._scope.cancel()
            with anyio.CancelScope(shield=True):
                await self._closed.wait()
            raise
        if self.sandbox is None:
            raise self._failure or HostError("the sandbox was not created")
        return self.sandbox

    async def close(self) -> None:
        """Delete the sandbox; returns when that has ended, within the limit for teardown."""
        self._closing.set()
        await self._closed.wait()

    async def _hold(self) -> None:
        started = time.perf_counter()
        create_s, teardown_s = self._create_s(), self._phases.limit("teardown")
        if self._phases.started is not None:
            self._phases.started("create")
        scope = self._scope
        if create_s is not None:
            scope.deadline = anyio.current_time() + create_s
        leaving: float | None = None
        try:
            with scope, boundary("sandbox", plugin=self._provider):
                async with self._provider.session(self.config) as sandbox:
                    if not scope.cancel_called:
                        scope.deadline = math.inf
                        self.sandbox, self.released = sandbox, False
                        self._phases.add("create", time.perf_counter() - started)
                        self._opened.set()
                        try:
                            await self._closing.wait()
                        finally:
                            leaving = time.perf_counter()
                            scope.shield = True
                            scope.deadline = math.inf if teardown_s is None else anyio.current_time() + teardown_s
                self.released = True
            if scope.cancel_called and self.sandbox is None:
                raise timeout_error("create", create_s, HostError, detail="create_timeout")
            if not self.released:
                self.trouble = f"teardown exceeded its limit of {teardown_s:g} s"
        except TrialError as error:
            self._ended_with(error, started)
        finally:
            if leaving is not None:
                self._phases.add("teardown", time.perf_counter() - leaving)
            self._opened.set()
            self._closed.set()

    def _ended_with(self, error: TrialError, started: float) -> None:
        if self.sandbox is None:
            self._phases.add("create", time.perf_counter() - started)
            if error.boundary is None:
                error.boundary = "sandbox"
            self._failure = error
        elif isinstance(error, SandboxGone):
            self.released = True
        else:
            self.trouble = described(error)

    def _create_s(self) -> float | None:
        build_s = self.config.build_timeout_s if isinstance(self.config.image, ImageBuild) else None
        return self._phases.limit("create", task_s=build_s)
