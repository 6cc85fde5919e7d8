"""What a command sees of the staging tree that publishes something of one trial."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace

import anyio
import anyio.to_thread

from agentix.api import StepContext
from agentix.plugins.experiments.publishing import Staging, view_of_trial
from agentix.plugins.experiments.steps import ResolvedStep


@asynccontextmanager
async def seen_by(
    step: ResolvedStep, ctx: StepContext, *, staging: Staging, trial_id: str
) -> AsyncIterator[StepContext]:
    """The unit as the step is to see it: a command does with its RUN_DIR what it likes, so no other trial is there.

    Args:
        step: The step.
        ctx: The unit, with paths in the staging tree.
        staging: The tree.
        trial_id: The trial.

    Raises:
        OSError: The disk did not take it.
    """
    if step.kind != "command" or not step.publishes:
        yield ctx
        return
    ends = ExitStack()
    try:
        root = await anyio.to_thread.run_sync(ends.enter_context, view_of_trial(staging, trial_id))
        path, trial_dir = (
            None if place is None else root / place.relative_to(staging.root) for place in (ctx.path, ctx.trial_dir)
        )
        yield replace(ctx, run_dir=root, path=path, trial_dir=trial_dir)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(ends.close)
