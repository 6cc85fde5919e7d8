"""Everything that is kept of one trial."""

from __future__ import annotations

import json

from agentix.cli.output import Output
from agentix.cli.wording import number, result, seconds
from agentix.records import Run
from agentix.records.trial_files import TRIAL_FILE

_LISTED = 60


def show_trial(run: Run, trial_id: str, *, as_json: bool, verbose: bool) -> None:
    """Print one trial.

    Raises:
        RunError: It has not ended.
    """
    trial = run.trial(trial_id)
    directory = run.layout.trial(trial_id)
    output = Output.stdout()
    if as_json:
        data = json.loads((directory / TRIAL_FILE).read_bytes())
        output.write(json.dumps({"path": str(directory), **data}, indent=2, allow_nan=False) + "\n")
        output.flush()
        return
    # What steps found out after the trial is on its line only.
    record = next((found for found in run if found.trial_id == trial_id), trial.record)
    output.line(f"{record.trial_id}: {result(record)}")
    output.line(f"  instance   {record.case}")
    output.line(f"  agent      {record.agent}" + (f" {record.agent_version}" if record.agent_version else ""))
    if record.llm_spec:
        output.line(f"  model      {record.llm_spec}")
    output.line(f"  reward     {number(record.reward)}")
    for name, value in record.metrics.items():
        output.line(f"  metric     {name} = {value:g}")
    output.line(f"  ended      {record.ended or 'unknown'}, {record.at or 'at an unknown time'}")
    output.line(f"  attempts   {record.attempts}")
    phases = ", ".join(f"{name} {seconds(value)}" for name, value in record.phases.items())
    output.line(f"  time       {seconds(record.seconds)}" + (f" ({phases})" if phases else ""))
    usage = record.usage.model_dump(exclude_none=True) if record.usage else {}
    output.line(f"  usage      {', '.join(f'{k} {v}' for k, v in usage.items()) or 'unknown'}")
    if record.failure_code is not None:
        detail = f" ({record.failure_detail})" if record.failure_detail else ""
        said, *further = (record.failure_message or "no message").splitlines() or [""]
        output.line(f"  failure    {record.failure_code}{detail}: {said}")
        for line in further:
            output.line(f"             {line}".rstrip())
        if trial.failure is not None:
            plugin = f", in {trial.failure.plugin}" if trial.failure.plugin else ""
            output.line(f"  whose      {trial.failure.boundary}{plugin}")
    for failed in record.step_failures:
        output.line(f"  step       {failed.step} failed: {failed.message}")
    if record.dropped:
        output.line("  dropped    nothing of it is published")
    for note in record.notes:
        output.line(f"  note       {note}")
    for name, version in trial.versions.items():
        output.line(f"  version    {name} = {version}")
    _list_files(run, trial_id, output)
    if trial.failure is not None and trial.failure.traceback is not None:
        output.line()
        output.line(trial.failure.traceback.rstrip() if verbose else "  -v shows the traceback")


def _list_files(run: Run, trial_id: str, output: Output) -> None:
    directory = run.layout.trial(trial_id)
    files = sorted(path for path in directory.rglob("*") if path.is_file() or path.is_symlink())
    output.line(f"  files      {directory}")
    for path in files[:_LISTED]:
        output.line(f"             {path.relative_to(directory)} ({path.lstat().st_size} bytes)")
    if len(files) > _LISTED:
        output.line(f"             and {len(files) - _LISTED} more")
