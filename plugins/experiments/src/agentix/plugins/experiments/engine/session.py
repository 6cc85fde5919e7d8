"""One session of a run, in its event loop: everything that can be interrupted."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio
import anyio.to_thread

from agentix.api import AgentixError, Case, Hooks, RunError, Summary, Trial, UsageError, load_run
from agentix.cli.api import ExperimentManifest, ExperimentWriter, ResumePlan, SignalLatch, log, plural
from agentix.plugins.experiments.cases import resolve
from agentix.plugins.experiments.commands import CommandRunner
from agentix.plugins.experiments.engine.closing import Closing, closing_steps, left_to_do
from agentix.plugins.experiments.engine.manifest import make_manifest
from agentix.plugins.experiments.engine.parts import Parts
from agentix.plugins.experiments.engine.request import RunRequest
from agentix.plugins.experiments.engine.trials import Ended, Trials
from agentix.plugins.experiments.engine.work import Executor
from agentix.plugins.experiments.plan import Plan, PlannedTrial, make_plan, select_cases
from agentix.plugins.experiments.progress import Board, CaseCount, Display

_PROGRESS_S = 1.0
_GRACE_S = 30.0
_SHORT_GRACE_S = 3.0
"""What is left of the grace once a second signal came."""


@dataclass
class Outcome:
    """How a session ended."""

    signal: int | None = None
    stopped: str | None = None
    """Why not everything was done."""
    planned: tuple[str, ...] = ()
    """Ids of the trials of the plan."""
    began: bool = False
    """Whether there was anything to do."""
    resume_with: str = ""
    notices: list[str] = field(default_factory=list)


class Session:
    """Resolves, checks, runs and closes.

    Args:
        request: What was asked for.
        parts: What the run is made of.
        writer: Holds the run's directory.
        board: Counts.
        display: Shows.
        hooks: Told about everything.
        signals: Where SIGINT, SIGTERM and SIGHUP are heard.
        width: How many trials run at once.
        start_log: Begins the log, where that waits until there is something to do.
    """

    def __init__(
        self,
        request: RunRequest,
        parts: Parts,
        *,
        writer: ExperimentWriter,
        board: Board,
        display: Display,
        hooks: Hooks,
        signals: SignalLatch,
        width: int,
        start_log: Callable[[], None] | None = None,
    ) -> None:
        self._request = request
        self._parts = parts
        self._writer = writer
        self._board = board
        self._display = display
        self._hooks = hooks
        self._signals = signals
        self._width = width
        self._start_log = start_log
        self._work = anyio.CancelScope()
        self._close = anyio.CancelScope()
        self._trials: Trials | None = None
        self._error: Exception | None = None
        self.outcome = Outcome(resume_with=f"agentix run {request.file} --id {board.run_id}")

    async def run(self) -> Outcome:
        """Do everything.

        Raises:
            AgentixError: Nothing was run, because something is wrong with what was asked for.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_signals)
            tasks.start_soon(self._tick)
            try:
                async with CommandRunner(inherit_env=self._parts.submission.commands.inherit_env) as runner:
                    await self._guarded(runner)
            except Exception as error:
                self._error = error
            await self._close_provider()
            tasks.cancel_scope.cancel()
        self._board.doing = ""
        if self.outcome.began:
            self._board.state = (
                "interrupted" if self.outcome.signal else "stopped" if self.outcome.stopped else "finished"
            )
            await self._write_progress()
        if self._error is not None:
            raise self._error
        return self.outcome

    async def _guarded(self, runner: CommandRunner) -> None:
        """Do everything; whichever way it ends, a run that has begun gets its report."""
        closing = Closing(self._parts, writer=self._writer, board=self._board, display=self._display, hooks=self._hooks)
        why: str | None = None
        with self._work:
            try:
                why = await self._do(runner, closing)
            except AgentixError as error:
                if not self.outcome.began:
                    raise
                why = error.message
                self._error = None if isinstance(error, UsageError) else error
        if self.outcome.signal is not None:
            why = f"interrupted by {signal.Signals(self.outcome.signal).name}"
        self.outcome.stopped = why
        if why is None or not self.outcome.began:
            return
        self._board.state = "closing"
        with self._close, anyio.move_on_after(_GRACE_S):
            await closing.report(runner, incomplete=why)

    async def _do(self, runner: CommandRunner, closing: Closing) -> str | None:
        """Resolve, check, run, close.

        Returns:
            Why not everything was done; `None` where it was.
        """
        cases = await self._resolve(runner)
        plan = make_plan(self._parts.submission, cases)
        self._note(plan.line)
        for notice in plan.notices:
            self._note(f"note: {notice}")
        manifest = make_manifest(self._parts, cases, plan, run_id=self._board.run_id)
        mixed = self._writer.check(manifest, force=self._request.force)
        self.outcome.planned = tuple(trial.trial_id for trial in plan.trials)
        executor = Executor(self._parts, runner, run_id=self._board.run_id, run_dir=self._writer.layout.root.absolute())
        resume, trials, ended = self._what_is_left(plan, executor)
        self._fill_board(plan, resume)
        if not self._anything_left(resume, ended):
            self._display.note(f"{self._writer.layout.root}: finished already, {len(resume.kept)} kept")
            return None
        self._begin(manifest, resume, mixed)
        self._note(_count_line(resume, ended))
        for note in self._hooks.call("agentix_run_started", run=self._writer.manifest.model_dump(mode="json")):
            log.warning("%s", note)
        self._board.state = "running"
        self._trials = Trials(
            self._parts,
            executor=executor,
            writer=self._writer,
            board=self._board,
            display=self._display,
            hooks=self._hooks,
            runner=runner,
            stop_after=self._request.stop_after,
            max_cost_usd=self._request.max_cost_usd,
        )
        await self._trials.run(trials, ended=ended, width=self._width)
        self._keep_images(self._trials.images)
        if self._trials.stopped is not None:
            return self._trials.stopped
        self._board.state = "closing"
        return await closing.run(runner)

    async def _resolve(self, runner: CommandRunner) -> tuple[Case, ...]:
        snapshots = self._writer.layout.root.absolute() / "cases"
        cases = await resolve(self._parts.submission, runner=runner, snapshots=snapshots, say=self._note)
        return select_cases(cases, patterns=self._request.cases, limit=self._request.limit)

    def _what_is_left(
        self, plan: Plan, executor: Executor
    ) -> tuple[ResumePlan, tuple[PlannedTrial, ...], tuple[Ended, ...]]:
        planned = {trial.trial_id: trial for trial in plan.trials}
        light = (_identified(trial) for trial in plan.trials)
        resume = self._writer.plan(light, retry=self._request.retry)
        again = frozenset(resume.retried)
        ended = tuple(
            Ended(planned[name], record)
            for name, record in self._writer.ended_trials.items()
            if name in planned and name not in again
        )
        return resume, tuple(planned[trial.trial_id] for trial in resume.run), ended

    def _anything_left(self, resume: ResumePlan, ended: Sequence[Ended]) -> bool:
        earlier = self._writer.earlier
        scan = self._writer.state.scan
        return bool(
            resume.run
            or ended
            or earlier is None
            or earlier.incomplete is not None
            or scan.torn
            or scan.unterminated
            or left_to_do(closing_steps(self._parts), earlier)
        )

    def _begin(self, manifest: ExperimentManifest, resume: ResumePlan, mixed: list[str]) -> None:
        if self._start_log is not None:
            self._start_log()
        earlier = self._writer.earlier
        if earlier is not None and not resume.run and not self._writer.ended_trials:
            # Nothing new will be known: what was said of the whole is still true.
            manifest = manifest.model_copy(update={"ended": earlier.ended})
        try:
            (self._writer.layout.root / "experiment.yaml").write_bytes(self._parts.submission.text)
        except OSError as error:
            raise RunError(f"{self._writer.layout.root}: cannot be written: {error.strerror}") from error
        self._writer.begin(manifest, resume, n_concurrent=self._width, mixed=mixed)
        self.outcome.began = True

    def _fill_board(self, plan: Plan, resume: ResumePlan) -> None:
        board = self._board
        if resume.retried:
            self._recount(frozenset(resume.retried))
        # What an earlier, larger plan has measured is part of the run too.
        wanted = {trial.trial_id for trial in plan.trials}
        beside = sum(name not in wanted for name in self._writer.state.done)
        board.planned = len(plan.trials) + beside
        for trial in plan.trials:
            board.cases.setdefault(trial.case.label, CaseCount()).of += 1
        for case in board.cases.values():
            case.of = max(case.of, case.done)

    def _recount(self, again: frozenset[str]) -> None:
        """Count the results once more, without those that are run again."""
        board = self._board
        board.summary, board.cases, board.dropped = Summary(), {}, 0
        for record in load_run(self._writer.layout.root):
            if record.trial_id not in again:
                board.count(record)

    def _keep_images(self, images: Mapping[str, set[str]]) -> None:
        """Keep with the cases which images their trials ran in."""
        manifest = self._writer.manifest
        cases = tuple(
            case.model_copy(update={"image_digests": tuple(sorted({*case.image_digests, *images[case.name]}))})
            if case.name in images
            else case
            for case in manifest.cases
        )
        if cases != manifest.cases:
            self._writer.update(manifest.model_copy(update={"cases": cases}))

    async def _close_provider(self) -> None:
        aclose = getattr(self._parts.provider, "aclose", None)
        if aclose is None:
            return
        with anyio.move_on_after(_GRACE_S if self.outcome.signal is None else _SHORT_GRACE_S, shield=True):
            try:
                await aclose()
            except Exception as error:
                self._say(f"the provider did not end well: {error}")

    async def _watch_signals(self) -> None:
        async for number in self._signals:
            name = signal.Signals(number).name
            if self.outcome.signal is None:
                self.outcome.signal = number
                running = len(self._board.in_flight)
                self._say(
                    f"{name}: no new trials; ending {plural(running, 'trial')} and cleaning up. "
                    f"Results so far are kept; resume with: {self.outcome.resume_with}"
                )
                self._work.cancel()
            else:
                self._say(f"{name}: again; what still writes has {_SHORT_GRACE_S:g} s")
                self._close.deadline = anyio.current_time() + _SHORT_GRACE_S

    async def _tick(self) -> None:
        last = 0.0
        while True:
            self._display.tick(self._board)
            now = anyio.current_time()
            if self.outcome.began and now - last >= _PROGRESS_S:
                last = now
                await self._write_progress()
            await anyio.sleep(self._display.interval_s)

    async def _write_progress(self) -> None:
        try:
            await self._writer.write_progress(self._board.to_data())
        except OSError as error:
            log.warning("progress.json could not be written: %s", error)

    def _say(self, text: str) -> None:
        self._display.say(text)
        log.warning("%s", text)

    def _note(self, text: str) -> None:
        self._display.note(text)
        log.info("%s", text)


def _identified(planned: PlannedTrial) -> Trial:
    return Trial(trial_id=planned.trial_id, instance=planned.case.instance, index=planned.index)


def _count_line(resume: ResumePlan, ended: Sequence[Ended]) -> str:
    parts = [f"{plural(len(resume.run), 'trial')} to run"]
    kept = len(resume.kept) - len(ended)
    if kept:
        parts.append(f"{kept} kept")
    if ended:
        parts.append(f"{len(ended)} ended before, of which only the steps are left")
    if resume.retried:
        parts.append(f"{len(resume.retried)} of them run again")
    return ", ".join(parts)
