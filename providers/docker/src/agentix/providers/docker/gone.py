"""Why a container's stream ended, as far as the engine knows."""

from __future__ import annotations

import json
import time
from typing import Any

import anyio

from agentix.api import SandboxGone
from agentix.providers.docker.connecting import EngineAbsent
from agentix.providers.docker.engine import Engine, segment
from agentix.providers.docker.progress import messages

_END_S = 5.0
_INSPECT_S = 5.0
_EVENTS_S = 2.0
_LOOK_BACK_S = 3600
_NOTED_S, _AGAIN_S = 2.0, 0.2
"""How long a busy engine may take to note a kill, and how often it is asked whether it has."""
_TAIL = 4000


async def cause_of_death(engine: Engine, sandbox_id: str, *, log: str) -> SandboxGone:
    """What became of it.

    Args:
        engine: The engine.
        sandbox_id: The container's name.
        log: What it wrote to its log.
    """
    what = f"the sandbox {sandbox_id} is gone"
    tail = log[-_TAIL:]
    said = f"; it said: {tail.strip().splitlines()[-1]}" if tail.strip() else ""
    path = f"/containers/{segment(sandbox_id)}"
    try:
        # The stream may end a moment before the engine has noted why.
        await engine.call("POST", f"{path}/wait", doing="wait for the container", ok=(404,), within_s=_END_S)
    except EngineAbsent as error:
        if not isinstance(error.__cause__, TimeoutError):
            return SandboxGone(f"{what}: the engine went away: {error.message}", log_tail=tail, hint=error.hint)
    answer = await engine.call("GET", f"{path}/json", doing="inspect the container", ok=(404,), within_s=_END_S)
    happened = await _events(engine, sandbox_id)
    state: dict[str, Any] = {} if answer.status == 404 else answer.json().get("State") or {}
    if answer.status == 404 or state.get("Status") in ("removing", "dead"):
        code = _code(happened.get("die"))
        return SandboxGone(f"{what}: its container was removed{said}", exit_code=code, log_tail=tail)
    if state.get("Running"):
        return SandboxGone(f"{what}: the engine hung up, but its container runs on{said}", log_tail=tail)
    code = state.get("ExitCode")
    # The engine's flag also stands where a command was killed for memory, and the sandbox later ended otherwise.
    of_memory = bool(state.get("OOMKilled") or "oom" in happened) and code == 137
    until = anyio.current_time() + _NOTED_S
    while of_memory and "kill" not in happened and anyio.current_time() < until:
        # The engine notes a kill once the container has ended of it, which may be after it was asked.
        await anyio.sleep(_AGAIN_S)
        happened = await _events(engine, sandbox_id)
    killed = "kill" in happened
    oom = of_memory and not killed
    if oom:
        cause = "its first process was killed for memory"
    elif killed:
        cause = f"somebody killed its container (exit code {code})"
    elif state.get("Error"):
        cause = f"its container ended: {state['Error']}"
    else:
        cause = f"its container ended with exit code {code}"
    hint = "give the task more memory_mb, or run fewer trials at a time" if oom else None
    return SandboxGone(f"{what}: {cause}{said}", exit_code=code, oom=oom, log_tail=tail, hint=hint)


async def fate(engine: Engine, sandbox_id: str, *, log: str) -> SandboxGone | None:
    """Why a sandbox cannot answer, `None` where its container runs."""
    path = f"/containers/{segment(sandbox_id)}/json"
    answer = await engine.call("GET", path, doing="inspect the container", ok=(404,), within_s=_INSPECT_S)
    state: dict[str, Any] = {} if answer.status == 404 else answer.json().get("State") or {}
    if state.get("Paused"):
        return SandboxGone(
            f"the sandbox {sandbox_id} does not answer: somebody paused its container", log_tail=log[-_TAIL:]
        )
    if state.get("Running") and state.get("Status") != "removing":
        return None
    return await cause_of_death(engine, sandbox_id, log=log)


async def what_tripped(engine: Engine, sandbox_id: str) -> tuple[str, ...]:
    """What to tell of a container that is about to be removed."""
    # While a container runs, older engines tell of it by their events only.
    happened = await _events(engine, sandbox_id)
    return ("docker: processes of the sandbox were killed for memory",) if "oom" in happened else ()


def _code(event: dict[str, Any] | None) -> int | None:
    attributes = ((event or {}).get("Actor") or {}).get("Attributes") or {}
    code = str(attributes.get("exitCode", ""))
    return int(code) if code.isdigit() else None


async def _events(engine: Engine, sandbox_id: str) -> dict[str, dict[str, Any]]:
    """The last event of each kind that the engine remembers of a container."""
    now = time.time()
    query = {
        "since": str(int(now) - _LOOK_BACK_S),
        # In the engine's future it would wait for more to happen.
        "until": f"{now:.9f}",
        "filters": json.dumps({"container": [sandbox_id], "event": ["die", "kill", "oom", "destroy"]}),
    }
    found = {}
    doing = "tell what happened"
    with anyio.move_on_after(_EVENTS_S):
        async with engine.stream("GET", "/events", query=query, doing=doing) as pieces:
            async for message in messages(pieces, doing=doing):
                if message.get("Action"):
                    found[str(message["Action"])] = message
    return found
