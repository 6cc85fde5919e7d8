"""The typed result of one attempt."""

from __future__ import annotations

import dataclasses
import json
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentix.errors import TrialError
from agentix.errors.one_line import on_one_line
from agentix.models import Failure, Rollout
from agentix.runner.boundary import failure_of
from agentix.runner.flow import AttemptFlow

_ERROR_CHARS = 500
AGENT_ERROR_FILE = "agent-error.txt"
FAILURE_FILE = "failure.json"


NOTE = "_note"
"""What a key of an agent's `info` ends with whose text is a note of the result."""


def rollout_of(
    flow: AttemptFlow,
    score: dict[str, Any] | None,
    error: TrialError | None,
    *,
    phases: Mapping[str, float],
    version: str | None,
) -> Rollout:
    """The rollout of an attempt that has ended: with a score, with nothing to score, or with an error."""
    failure = None if error is None else failure_of(error)
    results = [solved.result for _, solved in flow.solved]
    info: dict[str, Any] = {}
    for result in results:
        info |= result.info
    if len(flow.solved) > 1:
        info["solves"] = [
            {"name": name, "ended": solved.ended, "exit_code": solved.result.exit_code} for name, solved in flow.solved
        ]
    notes = list(flow.notes)
    for key, text in info.items():
        if key.endswith(NOTE) and isinstance(text, str):
            notes.append(f"the agent's {key.removesuffix(NOTE)}: {text}")
    if flow.agent_error is not None and flow.agent_error is not error:
        notes.append(f"agent: {one_line(failure_of(flow.agent_error))}")
    return Rollout(
        instance_id=flow.trial.instance_id,
        patch=flow.patch,
        score=score,
        agent_exit=next((r.exit_code for r in reversed(results) if r.exit_code is not None), None),
        error=None if failure is None else one_line(failure),
        skipped=flow.skipped,
        trial_id=flow.trial.trial_id,
        index=flow.trial.index,
        failure=failure,
        ended=flow.ended,
        usage=flow.usage,
        phases=dict(phases),
        trajectory=next((r.trajectory for r in reversed(results) if r.trajectory is not None), None),
        image_digest=flow.image_digest,
        agent_version=version,
        notes=tuple(notes),
        unreleased=tuple(flow.unreleased),
        info=info,
    )


def keep_agent_error(flow: AttemptFlow) -> None:
    """Keep the traceback of an agent that raised, which a reward would otherwise hide."""
    error = flow.agent_error
    if flow.log_dir is not None and error is not None and error.__cause__ is not None:
        text = "".join(traceback.format_exception(error.__cause__))
        (flow.log_dir / AGENT_ERROR_FILE).write_text(text, encoding="utf-8", errors="backslashreplace")


def write_failure(failure: Failure, directory: Path) -> None:
    """Write why an attempt failed to `failure.json` in its directory.

    Raises:
        OSError: It cannot be written.
    """
    (directory / FAILURE_FILE).write_text(json.dumps(dataclasses.asdict(failure), indent=2) + "\n", encoding="utf-8")


def one_line(failure: Failure) -> str:
    """A failure in one line for people."""
    detail = "" if failure.detail is None else f" ({failure.detail})"
    whose = "" if failure.plugin is None else f" in {failure.plugin}"
    text = on_one_line(f"{failure.code}{detail}{whose}: {failure.message}")
    return text if len(text) <= _ERROR_CHARS else text[: _ERROR_CHARS - 1] + "…"
