"""Asks a provider whether it works here, before trials find out one by one."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import anyio

from agentix.cli.request import PluginRequest
from agentix.cli.wording import short
from agentix.registry import load

_SAID = 600
CHECK_S = 60.0
"""How long a provider may look at the machine."""


async def provider_problem(request: PluginRequest) -> str | None:
    """Why no trial can have a sandbox of this provider, in one line; `None` where it does not say so."""
    # Asking may close what a provider holds, and the trials are to find theirs as it was.
    provider = load("provider", request.ref, request.options, where="--provider")
    try:
        problems = await problems_of(provider)
    except Exception:
        # A check that fails says nothing of the provider; the trials will.
        return None
    if not problems:
        return None
    said = short("\n".join(problems), _SAID)
    return f"the provider {request.ref} cannot make sandboxes here: {said}"


async def problems_of(provider: Any) -> Sequence[str] | None:
    """What a provider's own `check` finds; `None` where it has none.

    Raises:
        TimeoutError: It takes too long.
        Exception: What it raised.
    """
    check = getattr(provider, "check", None)
    if check is None:
        return None
    with anyio.fail_after(CHECK_S):
        problems = check()
        if inspect.isawaitable(problems):
            problems = await problems
    return [problems] if isinstance(problems, str) else [str(problem) for problem in problems or ()]
