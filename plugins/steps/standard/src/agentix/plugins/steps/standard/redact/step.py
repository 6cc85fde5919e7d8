"""The step `redact`: a copy of what a trial left, in which nothing secret is."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import anyio.from_thread
import anyio.to_thread

from agentix.api import RedactionResult, Redactor, Scope, StepContext, StepOutcome, walk
from agentix.plugins.steps.standard.redact.inputs import RedactInputs
from agentix.plugins.steps.standard.redact.trial_file import NAME, redact_trial_file

if TYPE_CHECKING:
    from agentix.api import AgentUse, Limits

_NOT_PUBLISHED = ("earlier", "steps")
_MOST = 5
REFUSED = "refused_files"


class Redact:
    """Make what may be published of a trial: a copy of what it left, without keys, secrets and addresses.

    A file that holds a secret and cannot be changed without damage is no part of the copy, and is named. Where
    redaction fails, nothing of the trial is published.
    """

    scopes = frozenset({Scope.PER_TRIAL})
    Inputs = RedactInputs
    redacts = True

    def check(
        self, inputs: RedactInputs, *, agents: Sequence[AgentUse] = (), limits: Limits | None = None
    ) -> Iterable[str]:
        """Name the variables whose values are too short to be looked for."""
        for name in inputs.too_short():
            yield _too_short(name)

    async def run(self, ctx: StepContext, inputs: RedactInputs) -> StepOutcome:
        """Make the copy.

        Raises:
            ValueError: The value of a variable is too short to be told from other text.
            RecordsDamaged: What the trial says of itself cannot be read, or would make no sense without its secrets.
            OSError: A file cannot be read, or the copy cannot be written.
        """
        return await anyio.to_thread.run_sync(_redact, ctx, inputs)


def _redact(ctx: StepContext, inputs: RedactInputs) -> StepOutcome:
    assert ctx.trial_dir is not None
    for name in inputs.too_short():
        raise ValueError(_too_short(name))
    for _, value in inputs.values():
        ctx.secrets.add(value)
    trial_id = str(ctx.subject["trial_id"])
    for old in ctx.work_dir.iterdir():
        shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    # Each time another one: whoever still reads the last copy never sees it change.
    fresh = ctx.work_dir / uuid4().hex
    try:
        copy = fresh / "trials" / trial_id
        redactor = Redactor(ctx.secrets, rules=replace(inputs.rules, patterns=ctx.patterns))
        result = redactor.tree(
            ctx.trial_dir,
            copy,
            skip=[NAME, *_NOT_PUBLISHED, *_unfinished(ctx.trial_dir)],
            check=anyio.from_thread.check_cancelled,
        )
        counts = Counter(result.counts) + redact_trial_file(
            ctx.trial_dir, copy, trial_id=trial_id, redactor=redactor, renamed=result.renamed
        )
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    if result.refused:
        counts[REFUSED] = len(result.refused)
    return StepOutcome(
        message=_message(result, counts),
        outputs={"files": result.files, "refused": dict(result.refused), "left_out": dict(result.left_out)},
        publish={f"trials/{trial_id}": copy},
        redaction=dict(sorted(counts.items())),
    )


def _unfinished(trial_dir: Path) -> Iterator[str]:
    """Files that somebody was writing and never renamed."""
    for entry in walk(trial_dir, wanted=lambda entry: entry.name not in (b"earlier", b"steps")):
        name = entry.name.rpartition(b"/")[2]
        if entry.kind == "file" and name.startswith(b".") and name.endswith(b".tmp"):
            yield os.fsdecode(entry.name)


def _message(result: RedactionResult, counts: Mapping[str, int]) -> str:
    taken = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()) if kind != REFUSED)
    parts = [f"{result.files} files, {taken or 'nothing'} taken out"]
    if result.refused:
        parts.append(f"refused: {_listed(result.refused)}")
    if result.left_out:
        parts.append(f"left out: {_listed(result.left_out)}")
    return "; ".join(parts)


def _listed(files: Mapping[str, str]) -> str:
    shown = [f"{name!r} ({why})" for name, why in list(files.items())[:_MOST]]
    more = len(files) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _too_short(name: str) -> str:
    return (
        f"variables: the value of {name} is too short to be told from other text, so it cannot be taken out; "
        "use a longer secret, or leave the variable out"
    )
