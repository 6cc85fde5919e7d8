"""The steps of one attempt, each with its limit, its timing and its attribution."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio.abc import TaskGroup

from agentix.errors import EnvFailed, HostError, SandboxGone, TrialError, VerifierError
from agentix.interfaces import Earlier
from agentix.models import AgentResult, Ended, SandboxConfig, Trial, Usage, slug
from agentix.runner.ahead import Ahead, completed
from agentix.runner.answer import Answer
from agentix.runner.boundary import boundary
from agentix.runner.collecting import collect
from agentix.runner.earlier import write_earlier
from agentix.runner.grading import check_score
from agentix.runner.phases import Phases
from agentix.runner.roles import Roles
from agentix.runner.sandboxes import Sandboxes
from agentix.runner.solving import Solved, run_agent

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What an agent has done, where scoring it failed: another attempt may score it again."""

    patch: str
    solved: tuple[tuple[str | None, Solved], ...]
    usage: Usage | None
    image_digest: str | None
    phases: Mapping[str, float]
    earlier: Earlier | None = None
    """Where the dataset drives its own flow: what it has kept itself."""


class AttemptFlow:
    """What a dataset composes, and what is known of the attempt so far.

    Args:
        roles: The plugins.
        trial: What is attempted.
        instance: The attempt's own copy of the instance.
        phases: The attempt's clock.
        tasks: Where the sandboxes are held.
        attempt: Number of the attempt, from 1.
        log_dir: Where files are kept.
        noted: Told each note.
        told: What providers have said in this run, so that it is said once.
        bundle: Digest of the bundle for all sandboxes, instead of the dataset's own.
        ahead: Makes sandboxes before they are needed.
        kept: What the agent did in the attempt before, which is only to be scored again.
    """

    def __init__(
        self,
        *,
        roles: Roles,
        trial: Trial,
        instance: dict[str, Any],
        phases: Phases,
        tasks: TaskGroup,
        attempt: int = 1,
        log_dir: Path | None = None,
        noted: Callable[[str], None] | None = None,
        told: set[str] | None = None,
        bundle: str | None = None,
        ahead: Ahead | None = None,
        kept: Kept | None = None,
    ) -> None:
        self.trial = trial
        self.log_dir = log_dir
        self.instance = instance
        self.notes: list[str] = []
        self.note = _noting(self.notes, noted)
        """Tell the reader of the result something that does not change it."""
        self.solved: list[tuple[str | None, Solved]] = []
        self.skipped: str | None = None
        self.image_digest: str | None = None
        self.usage: Usage | None = None
        self._roles = roles
        self._phases = phases
        self._attempt = attempt
        self._bundle = bundle
        self._ahead = ahead
        self._sandboxes = Sandboxes(
            roles.provider,
            phases=phases,
            tasks=tasks,
            ahead=ahead,
            ready=None if ahead is None or attempt > 1 else ahead.take(trial),
            note=self.note,
            told=set() if told is None else told,
        )
        self._answer = Answer(required=roles.answer_is_patch, phases=phases, note=self.note)
        self.kept: Kept | None = None
        """What may be scored again without the agent; set when scoring in a fresh sandbox begins."""
        self.resumed = kept is not None
        self.earlier = None if kept is None else kept.earlier
        if kept is not None:
            self._answer.patch = kept.patch
            self.solved, self.usage, self.image_digest = list(kept.solved), kept.usage, kept.image_digest
            for phase, seconds in kept.phases.items():
                phases.seconds[phase] = seconds

    @property
    def unreleased(self) -> Sequence[str]:
        """Ids of sandboxes that may still exist."""
        return self._sandboxes.unreleased

    @property
    def patch(self) -> str:
        """What the agent has changed so far; empty before the first `solve`."""
        return self._answer.patch

    @property
    def ended(self) -> Ended | None:
        """What ended the agent: of several runs the last that did not complete, if there is one."""
        ended: Ended | None = None
        for _, solved in self.solved:
            if solved.ended != "completed" or ended is None:
                ended = solved.ended
        return ended

    @property
    def agent_error(self) -> TrialError | None:
        """What to report of the agent where there is no reward."""
        return next((s.error for _, s in reversed(self.solved) if s.error is not None), None)

    async def setup(self) -> Sandbox:
        """Create the agent's sandbox, run the dataset's `setup` and the agent's `prepare` in it."""
        sandbox = await self._sandboxes.open(self._config(None))
        self.image_digest = sandbox.info.image_digest
        dataset, agent = self._roles.dataset, self._roles.prepares
        try:
            with boundary("dataset", plugin=dataset), self._phases.phase("setup", EnvFailed):
                ready = await dataset.setup(sandbox, self.instance)
                if not ready:
                    said = "" if ready is False else f" (setup returned {ready!r}, not True)"
                    raise EnvFailed(f"the dataset could not set the task up{said}", detail="setup_failed")
        except TrialError:
            self.skipped = "setup_failed"
            raise
        if agent is not None:
            await self._prepare(sandbox)
        return sandbox

    async def _prepare(self, sandbox: Sandbox) -> None:
        agent = self._roles.prepares
        assert agent is not None
        try:
            with (
                boundary("agent", plugin=agent, detail="agent_setup"),
                self._phases.phase("setup", EnvFailed, detail="agent_setup", name="agent setup"),
            ):
                await agent.prepare(sandbox)
        except TrialError as error:
            if error.code in ("HOST_ERROR", "ENV_FAILED"):
                raise
            # The agent's clock had not started: this must not count as its attempt.
            failed = EnvFailed(error.message, detail="agent_setup", hint=error.hint)
            failed.boundary, failed.plugin = error.boundary, error.plugin
            raise failed from error.__cause__

    async def solve(
        self,
        sandbox: Sandbox,
        *,
        instruction: str | None = None,
        user: str | None = None,
        timeout_s: float | None = None,
        name: str | None = None,
    ) -> AgentResult:
        """Run the agent once, end its processes where it was stopped, and take its patch."""
        await self._answer.prepare(sandbox)
        if self._ahead is not None:
            self._ahead.look()
        solved = await run_agent(
            self._roles,
            sandbox,
            self.instance,
            trial=self.trial,
            phases=self._phases,
            instruction=instruction,
            user=user,
            timeout_s=timeout_s,
            attempt=self._attempt,
            log_dir=self._agent_dir(name),
        )
        self.solved.append((name, solved))
        result = solved.result
        if result.usage is not None:
            self.usage = result.usage if self.usage is None else self.usage + result.usage
        if solved.fatal and solved.error is not None:
            if sandbox.alive:
                await self._answer.capture(sandbox, result.patch, best_effort=True)
            raise solved.error
        if not sandbox.alive and not result.patch:
            raise SandboxGone("the sandbox was lost while the agent worked")
        if solved.stopped or (self._roles.answer_is_patch and self.scoring == "fresh"):
            await self._end_processes(sandbox)
        await self._answer.capture(sandbox, result.patch)
        return result if result.ended == solved.ended else replace(result, ended=solved.ended)

    def _agent_dir(self, name: str | None) -> Path | None:
        if self.log_dir is None or name is None:
            return self.log_dir
        place = self.log_dir / slug(name)
        with boundary("host"):
            place.mkdir(parents=True, exist_ok=True)
        return place

    async def _end_processes(self, sandbox: Sandbox) -> None:
        if sandbox.alive and not sandbox.untouched:
            with boundary("sandbox"), self._phases.phase("collect", HostError, detail="kill_timeout"):
                await sandbox.kill_all()

    @property
    def scoring(self) -> str:
        """Where the answer is scored, `fresh` or `shared`."""
        with boundary("dataset", plugin=self._roles.dataset):
            return self._roles.scoring(self.instance)

    async def collect(self, sandbox: Sandbox, paths: Sequence[str], *, into: str = "artifacts") -> list[Path]:
        """Copy files and trees out of a sandbox into `log_dir / into`."""
        if self.log_dir is None or not paths:
            return []
        with boundary("sandbox"), self._phases.phase("collect", HostError):
            return await collect(sandbox, paths, into=self.log_dir / into, note=self.note)

    async def close(self, sandbox: Sandbox) -> None:
        """Delete a sandbox before the attempt ends; confirmed when this returns."""
        await self._sandboxes.close(sandbox)

    def keep(self, data: Mapping[str, Any] | None = None, /) -> None:
        """Note what the agent has done, so that another attempt can score it again."""
        earlier = None
        if data is not None:
            if self.log_dir is None:
                return
            earlier = Earlier(directory=self.log_dir, data=dict(data))
            with boundary("host"):
                write_earlier(earlier)
        self.kept = Kept(
            patch=self.patch,
            solved=tuple(self.solved),
            usage=self.usage,
            image_digest=self.image_digest,
            phases=dict(self._phases.seconds),
            earlier=earlier,
        )

    def prepare_sandbox(self, config: SandboxConfig | None = None) -> None:
        """Begin to make what `fresh_sandbox` will be asked for, if the run's budget has room for it."""
        if self._ahead is not None:
            self._sandboxes.prepare(self._config(config))

    def fresh_sandbox(self, config: SandboxConfig | None = None) -> AbstractAsyncContextManager[Sandbox]:
        """A new sandbox, from the dataset's config by default."""
        return self._fresh(config)

    @asynccontextmanager
    async def _fresh(self, config: SandboxConfig | None) -> AsyncIterator[Sandbox]:
        sandbox = await self._sandboxes.open(self._config(config))
        try:
            yield sandbox
        finally:
            await self.close(sandbox)

    async def score(
        self,
        scorer: Callable[[], Awaitable[dict[str, Any]]],
        *,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """Run a scorer within its limit and check what it returns."""
        try:
            with (
                boundary("scorer", plugin=self._roles.dataset),
                self._phases.phase("score", VerifierError, task_s=timeout_s),
            ):
                return check_score(await scorer())
        except VerifierError as error:
            if error.__cause__ is not None and not self._sandboxes.all_alive:
                lost = SandboxGone("the sandbox was lost while the answer was scored")
                lost.boundary = "sandbox"
                raise lost from error.__cause__
            raise

    async def close_all(self) -> None:
        """Delete what is still open, and what was made ready and not needed."""
        await self._sandboxes.close_all()

    def _config(self, config: SandboxConfig | None) -> SandboxConfig:
        with boundary("dataset", plugin=self._roles.dataset):
            chosen = self._roles.config(self.instance) if config is None else config
        return completed(chosen, self.trial, bundle=self._bundle)


def _noting(notes: list[str], noted: Callable[[str], None] | None) -> Callable[[str], None]:
    # A method would lead from the flow's parts back to it, and its memory would wait for a collection.
    def note(message: str) -> None:
        notes.append(message)
        if noted is not None:
            noted(message)

    return note
