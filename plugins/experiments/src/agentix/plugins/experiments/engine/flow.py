"""From the cases of the file to the last step of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentix.api import AgentixError, Case, HostError, RunError, UsageError
from agentix.cli.api import ExperimentManifest, ResumePlan, provider_problem
from agentix.plugins.experiments.cases import SNAPSHOTS, resolve
from agentix.plugins.experiments.commands import CommandRunner
from agentix.plugins.experiments.engine.checking import check_cases
from agentix.plugins.experiments.engine.closing import Closing
from agentix.plugins.experiments.engine.counting import Belonging, belonging
from agentix.plugins.experiments.engine.live import LiveRun
from agentix.plugins.experiments.engine.manifest import make_manifest
from agentix.plugins.experiments.engine.request import RunRequest
from agentix.plugins.experiments.engine.resuming import changed_steps, fill_board, refuse_changes, what_is_left
from agentix.plugins.experiments.engine.trials import Trials
from agentix.plugins.experiments.engine.work import Executor
from agentix.plugins.experiments.gate import could_not_check
from agentix.plugins.experiments.plan import Plan, make_plan, select_cases
from agentix.plugins.experiments.steps import foreseen


class Flow:
    """What a session does, in order.

    Args:
        request: What was asked for.
        live: The run.
        width: How many trials run at once.
    """

    def __init__(self, request: RunRequest, live: LiveRun, *, width: int) -> None:
        self._request = request
        self._live = live
        self._width = width
        self._logs = False
        self._in_file: Plan | None = None
        """What the file has, where not all of it was asked for."""
        self._belongs: Belonging | None = None
        self._checked: ExperimentManifest | None = None
        """What the run is, once its gate has started: from there on there is something to report."""

    @property
    def finished_before(self) -> bool:
        """Whether an earlier session came to the end, so that there may be nothing to do."""
        earlier = self._live.writer.earlier
        return earlier is not None and earlier.incomplete is None

    def start_log(self) -> None:
        """Begin the log, once."""
        if not self._logs:
            self._logs = True
            self._live.start_log(f"{self._live.root}: {self._live.parts.submission.path}")

    async def run(self, runner: CommandRunner, closing: Closing) -> str | None:
        """Resolve, check, run, close.

        Returns:
            Why not everything was done; `None` where it was.

        Raises:
            AgentixError: Something is wrong with what was asked for, or the run cannot be written.
        """
        try:
            return await self._run(runner, closing)
        except BaseException as error:
            self._keep_unfinished(error)
            raise

    async def _run(self, runner: CommandRunner, closing: Closing) -> str | None:
        request, live, parts, run_id = self._request, self._live, self._live.parts, self._live.board.run_id
        cases = await self._cases(runner)
        plan = self._plan(cases)
        live.note(plan.line)
        live.notes((*plan.notices, *foreseen(parts.pipeline.per_trial, len(plan.trials))))
        manifest = make_manifest(parts, cases, plan, run_id=run_id)
        executor = Executor(parts, runner, run_id=run_id, run_dir=live.root.absolute())
        whole, why = plan, None
        if parts.pipeline.per_case:
            self._checked = manifest
            gate = await check_cases(live, request, cases, manifest, executor, runner)
            checked = {"gate": gate.lines, "rejected": gate.rejected, "unknown": gate.unknown}
            if gate.stopped is not None:
                # Nothing is left out of what goes no further.
                self._belongs = belonging(live, plan, in_file=self._in_file or plan, asked=cases)
                self._begin_unfinished(manifest, checked)
                return gate.stopped
            passed = {case.label: case for case in gate.cases}
            known = [passed.get(case.label, case) for case in cases]
            # What is not known is not done: those trials belong to the run, and wait for it.
            whole = self._plan([case for case in known if case.label not in gate.rejected])
            plan = replace(whole, trials=tuple(t for t in whole.trials if t.case.label not in gate.unknown))
            waiting = {t.case.label for t in whole.trials if t.trial_id not in live.board.recorded}
            if unknown := {label: said for label, said in gate.unknown.items() if label in waiting}:
                why = could_not_check(unknown)
            manifest = make_manifest(parts, known, whole, run_id=run_id, found=gate.found)
            self._checked = manifest = manifest.model_copy(update=checked)
        mixed = refuse_changes(live, manifest, force=request.force)
        left = what_is_left(live, plan, retry=request.retry)
        for change in changed_steps(live, manifest, left):
            live.say(f"note: {change}")
        self._belongs = belonging(live, whole, in_file=self._in_file or whole, asked=cases)
        live.notes(self._belongs.lines)
        fill_board(live, self._belongs, left)
        if not left.anything and why is None:
            live.display.note(f"{live.root}: finished already, {len(left.resume.kept)} kept")
            return None
        if left.trials:
            await self._ask_provider()
        self._begin(manifest, left.resume, mixed=mixed)
        live.note(left.line)
        live.told(live.hooks.call("agentix_run_started", run=live.writer.manifest.model_dump(mode="json")))
        trials = Trials(
            live, executor, runner, stop_after=request.stop_after, max_cost_usd=request.max_cost_usd, width=self._width
        )
        live.board.state = "running"
        await trials.run(left.trials, ended=left.ended, rescored=left.rescored)
        if (why := trials.stopped or why) is not None:
            return why
        live.board.state = "closing"
        return await closing.run(runner)

    async def _cases(self, runner: CommandRunner) -> tuple[Case, ...]:
        snapshots = self._live.root.absolute() / SNAPSHOTS
        cases = await resolve(self._live.parts.submission, runner=runner, snapshots=snapshots, say=self._live.note)
        chosen = select_cases(cases, patterns=self._request.cases, limit=self._request.limit)
        if len(chosen) < len(cases) and self._live.writer.earlier is not None:
            self._in_file = make_plan(self._live.parts.submission, cases)
        return chosen

    def _plan(self, cases: Sequence[Case]) -> Plan:
        plan = make_plan(self._live.parts.submission, cases)
        self._live.outcome.planned = tuple(trial.trial_id for trial in plan.trials)
        return plan

    async def _ask_provider(self) -> None:
        """See that there can be sandboxes, before trials find out one by one."""
        parts = self._live.parts
        if parts.fresh_provider is None or parts.provider_use is None:
            return
        problem = await provider_problem(parts.provider_use.ref, parts.fresh_provider)
        if problem is not None:
            raise HostError(problem)

    def _keep_unfinished(self, error: BaseException) -> None:
        """Have what a report needs, of a run that ends at its gate or before its trials."""
        live, earlier = self._live, self._live.writer.earlier
        if live.outcome.began or self._checked is None:
            return
        if earlier is not None and (earlier.incomplete is None or isinstance(error, UsageError)):
            # What there is stays as it is: it is finished, or not what was asked for.
            return
        try:
            self._begin_unfinished(self._checked, {})
        except AgentixError as second:
            # What ended the run is what its user has to know.
            live.say(f"the run could not be noted: {second.message}")

    def _begin_unfinished(self, manifest: ExperimentManifest, checked: Mapping[str, object]) -> None:
        """Begin what has no trials to run; of a run that has results, only what its gate found is new."""
        writer = self._live.writer
        if writer.earlier is None or not (writer.state.done or writer.state.recoverable):
            found = manifest.model_copy(update=checked)
            self._begin(found if self._belongs is None else self._belongs.applied(found), ResumePlan(()), mixed=[])
            return
        self.start_log()
        writer.update(writer.go_on().model_copy(update=checked))
        self._live.outcome.began = True

    def _begin(self, manifest: ExperimentManifest, resume: ResumePlan, *, mixed: list[str]) -> None:
        """From here on it is a run: what it consists of is on the disk."""
        self.start_log()
        live, writer = self._live, self._live.writer
        if writer.earlier is not None and not resume.run and not writer.ended_trials:
            # Nothing new will be known: what was said of the whole is still true.
            manifest = manifest.model_copy(update={"ended": writer.earlier.ended})
        try:
            (live.root / "experiment.yaml").write_bytes(live.parts.submission.text)
            writer.begin(manifest, resume, n_concurrent=self._width, mixed=mixed)
            if writer.earlier is not None and self._belongs is not None:
                writer.update(self._belongs.applied(writer.manifest))
            live.outcome.began = True
            live.publication.forget(trial.trial_id for trial in resume.run)
        except OSError as error:
            raise RunError(f"{live.root}: cannot be written: {error.strerror}") from error
