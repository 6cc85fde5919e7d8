"""`agentix cases`: what an experiment file would run, and from which bytes."""

from __future__ import annotations

import json as json_module
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from agentix.api import Case
    from agentix.plugins.experiments.documents import Submission
    from agentix.plugins.experiments.plan import Plan

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Show which cases an experiment file would run.")


@app.command()
def cases(
    file: Annotated[Path, typer.Argument(help="The experiment file.")],
    commands: Annotated[
        Path | None, typer.Option(help="Take the commands from this file only.", metavar="FILE")
    ] = None,
    case: Annotated[
        list[str] | None, typer.Option("--case", metavar="GLOB", help="Only these cases; may be given again.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N of what is left.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Show what an experiment file would run, and from which bytes.

    Cases are fetched and hashed; nothing of them is run, and nothing of them is kept.
    """
    import anyio

    from agentix.cli.api import Output, SignalLatch, exit_codes
    from agentix.plugins.experiments.plan import make_plan, select_cases
    from agentix.plugins.experiments.steps import check_file

    # Nothing is run, so that nothing needs to be there that runs trials or steps.
    checked = check_file(file, commands=commands, trials=False, steps=False)
    checked.raise_problems(checked.case_problems(every=not case and limit is None))
    submission = checked.submission
    work = Path(tempfile.mkdtemp(prefix="agentix-cases-"))
    try:
        with SignalLatch() as latch:
            found = anyio.run(_resolve, submission, work, latch)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if found is None:
        return exit_codes.of_signal(latch.received[0])
    chosen = select_cases(found, patterns=case or (), limit=limit)
    plan = make_plan(submission, chosen)
    output = Output.stdout()
    lines = (
        [json_module.dumps(_plain(submission, chosen, plan), indent=2)] if json else _listing(submission, chosen, plan)
    )
    for line in lines:
        output.line(line)
    return exit_codes.OK


async def _resolve(submission: Submission, work: Path, latch: Any) -> tuple[Case, ...] | None:
    """The cases; `None` where a signal came first."""
    import anyio

    from agentix.cli.api import Output
    from agentix.plugins.experiments.cases import resolve
    from agentix.plugins.experiments.commands import CommandRunner

    found: tuple[Case, ...] | None = None
    error: BaseException | None = None
    said = Output.stderr()

    async def watch() -> None:
        async for _ in latch:
            group.cancel_scope.cancel()

    # What is raised inside is raised again outside of the group, which would wrap it.
    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        try:
            async with CommandRunner(inherit_env=submission.commands.inherit_env) as runner:
                found = await resolve(submission, runner=runner, snapshots=work, say=said.line)
        except Exception as raised:
            error = raised
        group.cancel_scope.cancel()
    if error is not None:
        raise error
    return found


def _plain(submission: Submission, cases: tuple[Case, ...], plan: Plan) -> dict[str, Any]:
    trials: dict[int, list[str]] = {}
    for trial in plan.trials:
        trials.setdefault(id(trial.case), []).append(trial.trial_id)
    return {
        "experiment": submission.experiment.name,
        "file": str(submission.path),
        "sha256": submission.sha256,
        "matrix": plan.line.removeprefix("matrix: "),
        "notices": [*submission.notices, *plan.notices],
        "cases": [
            {
                "name": case.name,
                "label": case.label,
                "source": case.source,
                "dataset": case.dataset,
                "sha256": case.sha256,
                "pin": dict(case.pin),
                "trials": trials.get(id(case), []),
            }
            for case in cases
        ],
    }


def _listing(submission: Submission, cases: tuple[Case, ...], plan: Plan) -> list[str]:
    from agentix.cli.api import table

    trials = Counter(id(trial.case) for trial in plan.trials)
    rows = [
        [
            case.name,
            "-" if case.sha256 is None else case.sha256[:12],
            str(trials[id(case)]),
            case.source,
            _origin(case),
        ]
        for case in cases
    ]
    notices = [*submission.notices, *plan.notices]
    return [*notices, *table(["case", "sha256", "trials", "source", "from"], rows, right=frozenset({2})), "", plan.line]


def _origin(case: Case) -> str:
    """Where the bytes come from, as exactly as it is known."""
    if case.source == "dataset":
        return case.dataset
    at = case.pin.get("commit", case.pin.get("ref", ""))[:12]
    where = case.pin.get("repo", "")
    path = case.label.removesuffix(f" ({case.name})")
    return f"{where}{'@' if at else ''}{at} {path}".strip()
