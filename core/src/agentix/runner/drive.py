"""The flow of a dataset that does not drive its own: set up, solve, score."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from agentix.errors import TrialError
from agentix.runner.boundary import boundary, described
from agentix.runner.flow import AttemptFlow
from agentix.runner.grading import check_score
from agentix.runner.roles import Roles

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox


async def drive(roles: Roles, flow: AttemptFlow) -> dict[str, Any] | None:
    """Run the dataset's own flow where it has one for this instance, else the default one.

    Returns:
        The checked score; `None` where there was nothing to score.
    """
    if flow.resumed and flow.earlier is None:
        return await _score_fresh(roles, flow)
    if roles.drives is not None:
        with boundary("dataset", plugin=roles.dataset):
            score = await roles.drives.drive(flow, flow.instance)
        if score is not None:
            with boundary("scorer", plugin=roles.dataset):
                return check_score(score)
    return await default_drive(roles, flow)


async def default_drive(roles: Roles, flow: AttemptFlow) -> dict[str, Any] | None:
    """Set up, let the agent solve, and score in a fresh sandbox or in the same one."""
    sandbox = await flow.setup()
    fresh = flow.scoring == "fresh"
    if fresh:
        flow.prepare_sandbox()
    await flow.solve(sandbox)
    await _keep_artifacts(roles, flow, sandbox)
    if not fresh:
        return await flow.score(_scorer(roles, flow, sandbox))
    await flow.close(sandbox)
    if roles.answer_is_patch and not flow.patch:
        if flow.agent_error is not None:
            raise flow.agent_error
        flow.skipped = "empty_patch"
        return None
    return await _score_fresh(roles, flow)


async def _score_fresh(roles: Roles, flow: AttemptFlow) -> dict[str, Any]:
    flow.keep()
    async with flow.fresh_sandbox() as fresh:
        return await flow.score(_scorer(roles, flow, fresh))


def _scorer(roles: Roles, flow: AttemptFlow, sandbox: Sandbox) -> Callable[[], Awaitable[dict[str, Any]]]:
    return lambda: roles.dataset.score(sandbox, flow.instance, flow.patch)


async def _keep_artifacts(roles: Roles, flow: AttemptFlow, sandbox: Sandbox) -> None:
    """What cannot be kept is a note: it has no part in the score."""
    try:
        with boundary("dataset", plugin=roles.dataset):
            paths = roles.artifacts(flow.instance)
        await flow.collect(sandbox, paths)
    except TrialError as error:
        flow.note(f"artifacts were not collected: {described(error)}")
