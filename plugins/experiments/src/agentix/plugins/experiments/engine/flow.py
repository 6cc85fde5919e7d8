"""From the cases of the file to the last step of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agentix.api import Case, FailureCode, Hooks, RunError, Trial, load_run
from agentix.cli.api import ExperimentManifest, ExperimentWriter, ResumePlan, log, plural
from agentix.plugins.experiments.cases import resolve
from agentix.plugins.experiments.commands import CommandRunner
from agentix.plugins.experiments.engine.checking import gate_setting
from agentix.plugins.experiments.engine.closing import Closing, closing_steps, left_to_do
from agentix.plugins.experiments.engine.manifest import make_manifest
from agentix.plugins.experiments.engine.parts import Parts
from agentix.plugins.experiments.engine.publication import Publication
from agentix.plugins.experiments.engine.request import RunRequest
from agentix.plugins.experiments.engine.trial_steps import TrialSteps
from agentix.plugins.experiments.engine.trials import Ended, Trials
from agentix.plugins.experiments.engine.unshipped import unshipped
from agentix.plugins.experiments.engine.work import Executor
from agentix.plugins.experiments.gate import GateResult, run_gate
from agentix.plugins.experiments.plan import Plan, PlannedTrial, make_plan, select_cases
from agentix.plugins.experiments.progress import Board, CaseCount, Display


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
    rest: str = "finished"
    """The state of the run where all was done."""
    notices: list[str] = field(default_factory=list)


class Flow:
    """What a session does, in order.

    Args:
        request: What was asked for.
        parts: What the run is made of.
        writer: Holds the run's directory.
        board: Counts.
        display: Shows.
        hooks: Told about everything.
        publication: What of the run may leave this machine.
        width: How many trials run at once.
        outcome: Where to note how far it came.
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
        publication: Publication,
        width: int,
        outcome: Outcome,
        start_log: Callable[[], None] | None = None,
    ) -> None:
        self._request = request
        self._parts = parts
        self._writer = writer
        self._board = board
        self._display = display
        self._hooks = hooks
        self._publication = publication
        self._width = width
        self._outcome = outcome
        self._start_log = start_log

    async def run(self, runner: CommandRunner, closing: Closing) -> str | None:
        """Resolve, check, run, close.

        Returns:
            Why not everything was done; `None` where it was.

        Raises:
            AgentixError: Something is wrong with what was asked for, or the run cannot be written.
        """
        cases = await self._resolve(runner)
        plan = self._plan(cases)
        self._note(plan.line)
        for notice in plan.notices:
            self._note(f"note: {notice}")
        manifest = make_manifest(self._parts, cases, plan, run_id=self._board.run_id)
        run_dir = self._writer.layout.root.absolute()
        executor = Executor(self._parts, runner, run_id=self._board.run_id, run_dir=run_dir)
        if self._parts.pipeline.per_case:
            gate = await self._gate(cases, manifest, executor, runner)
            checked = {"gate": gate.lines, "rejected": gate.rejected}
            if gate.stopped is not None:
                self._begin(manifest.model_copy(update=checked), ResumePlan(()), mixed=[])
                return gate.stopped
            plan = self._plan(gate.cases)
            left_out = [case for case in cases if case.label in gate.rejected]
            manifest = make_manifest(
                self._parts, (*gate.cases, *left_out), plan, run_id=self._board.run_id, found=gate.found
            ).model_copy(update=checked)
        mixed = self._check(manifest)
        resume, trials, ended = self._what_is_left(plan)
        self._fill_board(plan, resume)
        if not self._anything_left(resume, ended):
            self._display.note(f"{self._writer.layout.root}: finished already, {len(resume.kept)} kept")
            return None
        self._begin(manifest, resume, mixed=mixed)
        self._note(_count_line(resume, ended))
        self._tell(self._hooks.call("agentix_run_started", run=self._writer.manifest.model_dump(mode="json")))
        failed = {*resume.retried} & {n for n, c in self._codes() if c is FailureCode.VERIFIER_ERROR}
        stopped = await self._trials(executor, runner, trials, ended, rescored=frozenset(failed))
        if stopped is not None:
            return stopped
        self._board.state = "closing"
        return await closing.run(runner)

    async def _resolve(self, runner: CommandRunner) -> tuple[Case, ...]:
        snapshots = self._writer.layout.root.absolute() / "cases"
        cases = await resolve(self._parts.submission, runner=runner, snapshots=snapshots, say=self._note)
        return select_cases(cases, patterns=self._request.cases, limit=self._request.limit)

    def _plan(self, cases: Sequence[Case]) -> Plan:
        plan = make_plan(self._parts.submission, cases)
        self._outcome.planned = tuple(trial.trial_id for trial in plan.trials)
        return plan

    async def _gate(
        self, cases: Sequence[Case], manifest: ExperimentManifest, executor: Executor, runner: CommandRunner
    ) -> GateResult:
        if not any(step.fix is not None for step in self._parts.pipeline.per_case):
            # A repair changes what the cases are; without one, a refusal need not wait for the checks.
            self._writer.check(manifest, force=self._request.force)
        if self._writer.earlier is None:
            # So that another terminal can see the run already.
            self._writer.update(manifest)
        self._board.state = "gate"
        setting = gate_setting(
            self._parts,
            executor,
            runner,
            run_id=self._board.run_id,
            run_dir=self._writer.layout.root.absolute(),
            regate=self._request.regate,
            say=self._note,
        )
        async with executor.preparing():
            result = await run_gate(cases, setting)
        for warning in result.warnings:
            self._say(f"note: {warning}")
        for case in cases:
            why = result.rejected.get(case.label)
            facts = {"name": case.name, "label": case.label, "sha256": case.sha256}
            told = self._hooks.call("agentix_case_finished", case=facts, accepted=why is None, message=why or "")
            self._tell(told)
        return result

    def _check(self, manifest: ExperimentManifest) -> list[str]:
        mixed = self._writer.check(manifest, force=self._request.force)
        for change in mixed:
            self._say(f"mixed: {change}")
        earlier = self._writer.earlier
        for change in () if earlier is None else earlier.version_changes(manifest):
            self._note(f"note: another version than before: {change}")
        return mixed

    def _what_is_left(self, plan: Plan) -> tuple[ResumePlan, tuple[PlannedTrial, ...], tuple[Ended, ...]]:
        planned = {trial.trial_id: trial for trial in plan.trials}
        light = (Trial(trial_id=t.trial_id, instance=t.case.instance, index=t.index) for t in plan.trials)
        resume = self._writer.plan(light, retry=self._request.retry)
        again = frozenset(resume.retried)
        left = unshipped(self._parts.pipeline.per_trial, self._board.failed_steps)
        self._writer.reopen(name for name in left if name in planned and name not in again)
        ended = tuple(
            Ended(planned[name], record)
            for name, record in self._writer.ended_trials.items()
            if name in planned and name not in again
        )
        return resume, tuple(planned[trial.trial_id] for trial in resume.run), ended

    def _codes(self) -> Iterator[tuple[str, FailureCode | None]]:
        """The failure codes that trials ended with in earlier sessions."""
        yield from self._writer.state.done.items()
        yield from ((name, record.failure_code) for name, record in self._writer.ended_trials.items())

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

    def _begin(self, manifest: ExperimentManifest, resume: ResumePlan, *, mixed: list[str]) -> None:
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
        self._outcome.began = True
        try:
            self._publication.forget(trial.trial_id for trial in resume.run)
        except OSError as error:
            raise RunError(f"{self._writer.layout.root}: cannot be written: {error.strerror}") from error

    def _fill_board(self, plan: Plan, resume: ResumePlan) -> None:
        board = self._board
        again = {*resume.retried, *(self._writer.ended_trials.keys() & board.recorded)}
        if again:
            self._recount(frozenset(again))
        # What an earlier, larger plan has measured is part of the run too.
        wanted = {trial.trial_id for trial in plan.trials}
        board.planned = len(plan.trials) + sum(name not in wanted for name in self._writer.state.done)
        for trial in plan.trials:
            board.cases.setdefault(trial.case.label, CaseCount()).of += 1
        for case in board.cases.values():
            case.of = max(case.of, case.done)

    def _recount(self, again: frozenset[str]) -> None:
        """Count the results once more, without those that are run again."""
        board = self._board
        board.forget()
        for record in load_run(self._writer.layout.root):
            if record.trial_id not in again:
                board.count(record)

    async def _trials(
        self,
        executor: Executor,
        runner: CommandRunner,
        planned: Sequence[PlannedTrial],
        ended: Sequence[Ended],
        *,
        rescored: frozenset[str],
    ) -> str | None:
        self._board.state = "running"
        trials = Trials(
            self._parts,
            executor=executor,
            writer=self._writer,
            board=self._board,
            display=self._display,
            hooks=self._hooks,
            steps=TrialSteps(
                self._publication,
                runner=runner,
                layout=self._writer.layout,
                run_id=self._board.run_id,
                experiment=self._board.experiment,
            ),
            publication=self._publication,
            stop_after=self._request.stop_after,
            max_cost_usd=self._request.max_cost_usd,
        )
        try:
            await trials.run(planned, ended=ended, rescored=rescored, width=self._width)
        finally:
            self._keep_images(trials.images)
        return trials.stopped

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

    def _tell(self, notes: Sequence[str]) -> None:
        for note in notes:
            log.warning("%s", note)

    def _say(self, text: str) -> None:
        self._display.say(text)
        log.warning("%s", text)

    def _note(self, text: str) -> None:
        self._display.note(text)
        log.info("%s", text)


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
