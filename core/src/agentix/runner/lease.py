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

_BESIDES_BUILDING_S = 60.0
_ANSWER_S = 5.0
_GRACE_S = 1.0
"""How much longer than its limit a session may take to end by itself."""


class Lease:
    """Holds one session open until it is told to close.

    A session may keep a task group open for as long as it lasts. Sandboxes do not end in the reverse order of
    their beginning, so each session gets a task in which it is entered and left.
    """

    def __init__(self, provider: SandboxProvider, config: SandboxConfig, phases: Phases) -> None:
        self.config = config
        self.sandbox: Sandbox | None = None
        self.unreleased: tuple[str, str] | None = None
        """Id of a sandbox that may still exist, and why."""
        self._provider = provider
        self._phases = phases
        self._failure: TrialError | None = None
        # Thousands of leases may be held at a time: an event exists only while somebody waits for it.
        self._opened: anyio.Event | None = anyio.Event()
        self._closing = anyio.Event()
        self._closed: anyio.Event | None = None
        self._given = False
        """Whether a task was asked to hold it."""
        self._adopted = False
        self._begun = False
        self._over = False
        self._started = 0.0
        self._scope = anyio.CancelScope()
        self._left: float | None = None

    @property
    def alive(self) -> bool:
        """Whether the sandbox was not lost."""
        return self.sandbox is None or self.sandbox.alive

    def begin(self, tasks: TaskGroup) -> None:
        """Begin to create the sandbox, without waiting for it."""
        if not self._given:
            self._given = True
            tasks.start_soon(self._hold, name="agentix.sandbox")

    def adopt(self, phases: Phases) -> None:
        """Count its time from now on in another attempt, which it was made ready for."""
        self._phases = phases
        self._adopted = True
        self._started = time.perf_counter()
        phases.begin("create")

    def drop(self) -> None:
        """Begin to end it, also where it is still being created; `close` waits for that."""
        self._closing.set()
        if self.sandbox is None:
            self._over = self._over or not self._given
            self._scope.cancel()

    async def answers(self) -> bool:
        """Whether a sandbox that was open for a while can still be used."""
        sandbox = self.sandbox
        if sandbox is None or not sandbox.alive:
            return False
        if sandbox.untouched:
            return True
        with anyio.move_on_after(_ANSWER_S):
            try:
                return await sandbox.exists("/")
            except (HostError, OSError):
                return False
        return False

    async def open(self, tasks: TaskGroup) -> Sandbox:
        """Create the sandbox, or wait until it is there.

        Raises:
            TrialError: It could not be created, or not in time.
        """
        self.begin(tasks)
        try:
            if self._opened is not None:
                await self._opened.wait()
        except BaseException:
            # An event loop that ends cancels every task, also one that has not begun and then never will.
            self._over = self._over or not self._begun
            self._scope.cancel()
            with anyio.CancelScope(shield=True):
                await self._end()
            raise
        self._opened = None
        if self.sandbox is None:
            raise self._failure or HostError("the sandbox was not created")
        return self.sandbox

    async def close(self) -> None:
        """Delete the sandbox; returns when that has ended, within the limit for teardown."""
        self._closing.set()
        await self._end()

    async def _end(self) -> None:
        if not self._over:
            if self._closed is None:
                self._closed = anyio.Event()
            await self._closed.wait()

    async def _hold(self) -> None:
        if self._over:
            return
        self._begun = True
        self._started = self._started or time.perf_counter()
        config = self.config
        builds = isinstance(config.image, ImageBuild)
        create_s = self._phases.limit("create", task_s=config.build_timeout_s if builds else None)
        if builds and create_s is not None:
            # A build that takes too long is the image's fault, which the provider can tell from the machine's.
            config = config.model_copy(update={"build_timeout_s": create_s})
            create_s += _BESIDES_BUILDING_S
        teardown_s = self._phases.limit("teardown") or self._phases.limits.teardown_s
        if not self._adopted:
            self._phases.begin("create")
        scope = self._scope
        if create_s is not None:
            scope.deadline = anyio.current_time() + create_s
        ended = False
        try:
            with scope, boundary("sandbox", plugin=self._provider):
                async with self._provider.session(config) as sandbox:
                    if not scope.cancel_called:
                        scope.deadline = math.inf
                        sandbox.teardown_s = teardown_s
                        self._phases.add("create", time.perf_counter() - self._started)
                        self.sandbox = sandbox
                        self._is_open()
                        await self._stay(scope, teardown_s)
                ended = True
            if self.sandbox is None:
                raise timeout_error("create", create_s, HostError, detail="create_timeout")
            if self.sandbox.unreleased is not None:
                self.unreleased = (self.sandbox.id, self.sandbox.unreleased.message)
            elif not ended:
                self.unreleased = (self.sandbox.id, f"teardown exceeded its limit of {teardown_s:g} s")
        except TrialError as error:
            self._ended_with(error)
        finally:
            if self._left is not None:
                self._phases.add("teardown", time.perf_counter() - self._left)
            self._over = True
            self._is_open()
            if self._closed is not None:
                self._closed.set()

    def _is_open(self) -> None:
        if self._opened is not None:
            self._opened.set()

    async def _stay(self, scope: anyio.CancelScope, teardown_s: float) -> None:
        try:
            await self._closing.wait()
        finally:
            self._left = time.perf_counter()
            # From here on nothing but the limit ends the teardown.
            scope.shield = True
            scope.deadline = anyio.current_time() + teardown_s + _GRACE_S

    def _ended_with(self, error: TrialError) -> None:
        if self.sandbox is not None:
            if not isinstance(error, SandboxGone):
                self.unreleased = (self.sandbox.id, described(error))
            return
        self._phases.add("create", time.perf_counter() - self._started)
        error.boundary = error.boundary or "sandbox"
        self._failure = error
        origin: BaseException | None = error
        while origin is not None and self.unreleased is None:
            left = getattr(origin, "unreleased", None)
            if left is not None:
                self.unreleased = (left.id, left.message)
            origin = origin.__cause__
