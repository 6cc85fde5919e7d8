"""The directory of one trial: the whole result, beside its one line in results.jsonl."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentix.errors import RecordsDamaged
from agentix.models import Boundary, Rollout
from agentix.records.plain import clean_text, dump_pretty, plain
from agentix.records.plain_files import read_plain
from agentix.records.record import Record

TRIAL_FILE = "trial.json"
PATCH_FILE = "patch.diff"
TRAJECTORY_FILE = "trajectory.json"
SCORE_FILE = "score.json"
EARLIER_DIR = "earlier"


class FailureFile(BaseModel):
    """The whole failure; code, detail and message are in the record."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    message: str
    boundary: Boundary
    plugin: str | None = None
    traceback: str | None = None


class KeptFile(BaseModel):
    """A file beside trial.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bytes: int
    sha256: str


class TrialFile(BaseModel):
    """What trial.json holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    record: Record
    agent_exit: int | None = None
    error: str | None = None
    skipped: str | None = None
    failure: FailureFile | None = None
    unreleased: tuple[str, ...] = ()
    info: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    """Of the distributions that made this result."""
    files: dict[str, KeptFile] = Field(default_factory=dict)


def trial_files(rollout: Rollout, record: Record, *, versions: Mapping[str, str]) -> list[tuple[str, bytes]]:
    """Names and contents of a trial's files; trial.json is the last, so that it vouches for the others."""
    files: list[tuple[str, bytes]] = []
    if rollout.patch:
        files.append((PATCH_FILE, rollout.patch.encode("utf-8", "surrogateescape")))
    if rollout.trajectory is not None:
        files.append((TRAJECTORY_FILE, dump_pretty(plain(rollout.trajectory))))
    if rollout.score is not None:
        files.append((SCORE_FILE, dump_pretty(plain(rollout.score))))
    failure = rollout.failure
    trial = TrialFile(
        record=record,
        agent_exit=rollout.agent_exit,
        error=None if rollout.error is None else clean_text(rollout.error),
        skipped=rollout.skipped,
        failure=None
        if failure is None
        else FailureFile(
            message=clean_text(failure.message),
            boundary=failure.boundary,
            plugin=failure.plugin,
            traceback=None if failure.traceback is None else clean_text(failure.traceback),
        ),
        unreleased=rollout.unreleased,
        info=plain(rollout.info),
        versions=dict(versions),
        files={name: KeptFile(bytes=len(data), sha256=hashlib.sha256(data).hexdigest()) for name, data in files},
    )
    data = trial.model_dump(mode="json", exclude_none=True, exclude={"record"})
    ordered = {"schema_version": data.pop("schema_version"), "record": record.to_data(), **data}
    files.append((TRIAL_FILE, dump_pretty({k: v for k, v in ordered.items() if v not in ([], {})})))
    return files


def read_trial_file(path: Path) -> TrialFile:
    """Read a trial.json.

    Raises:
        RecordsDamaged: It is none.
        FileNotFoundError: The trial has not ended.
    """
    data = read_plain(path)
    try:
        return TrialFile.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RecordsDamaged(
            f"{path}: {place}: {first['msg']}", hint="The file was left as it is; remove it to run that trial again."
        ) from None


def set_aside(trial_dir: Path) -> None:
    """Move what an earlier running of the trial left into `earlier/<n>`, where it stays as evidence."""
    entries = [entry for entry in trial_dir.iterdir() if entry.name != EARLIER_DIR] if trial_dir.is_dir() else []
    if not entries:
        return
    earlier = trial_dir / EARLIER_DIR
    earlier.mkdir(exist_ok=True)
    number = 1 + max((int(e.name) for e in earlier.iterdir() if e.name.isdigit()), default=0)
    target = earlier / str(number)
    target.mkdir()
    # trial.json goes first: without it the trial counts as not run, whatever else is still in its place.
    for entry in sorted(entries, key=lambda e: e.name != TRIAL_FILE):
        entry.rename(target / entry.name)
    for half in target.glob(".*.tmp"):
        half.unlink(missing_ok=True)
