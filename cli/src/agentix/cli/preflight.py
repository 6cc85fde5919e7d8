"""Asks a provider whether it works here, before trials find out one by one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import anyio

from agentix.cli.wording import short

_SAID = 600
AGAIN_S = (1.0, 2.0)
"""How long to wait before a provider that has told a problem is asked again."""
CHECK_S = 60.0
"""How long a provider may look at the machine."""


async def provider_problem(ref: str, make: Callable[[], Any]) -> str | None:
    """Why no trial can have a sandbox of this provider, in one line; `None` where it does not say so.

    An engine that is just being restarted looks like one that is not there, so that a problem has to last.

    Args:
        ref: What the user calls it.
        make: Makes the provider: asking may close what one holds, and the trials are to find theirs as it was.
    """
    problems: Sequence[str] | None = None
    for wait in (0.0, *AGAIN_S):
        await anyio.sleep(wait)
        try:
            problems = await problems_of(make())
        except Exception:
            # A check that fails says nothing of the provider; the trials will.
            return None
        if not problems:
            return None
    said = short("\n".join(problems or ()), _SAID)
    return f"the provider {ref} cannot make sandboxes here: {said}"


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
