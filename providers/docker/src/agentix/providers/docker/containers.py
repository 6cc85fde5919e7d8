"""Creates and removes containers so that none is left behind, whatever happens meanwhile."""

from __future__ import annotations

from typing import Any

import anyio

from agentix.api import HostError
from agentix.providers.docker.engine import Engine, EngineError, segment

_CREATED_S = 20.0
_POLL_S = 0.05
_GONE_S = 25.0


async def create_container(engine: Engine, name: str, body: dict[str, Any]) -> None:
    """Create a container, and be told of it also when cancelled: the engine goes on, and it has to be deleted.

    Raises:
        EngineError: The engine refuses it.
        EngineAbsent: It does not answer.
    """
    failure: list[HostError] = []
    done = anyio.Event()
    scope = anyio.CancelScope(shield=True)

    async def run() -> None:
        with scope:
            try:
                await engine.call(
                    "POST",
                    "/containers/create",
                    query={"name": name},
                    body=body,
                    doing="create the container",
                )
            except HostError as error:
                failure.append(error)
        done.set()

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        try:
            await done.wait()
        except anyio.get_cancelled_exc_class():
            scope.deadline = anyio.current_time() + _CREATED_S
            raise
    if failure:
        raise failure[0]


async def remove_container(engine: Engine, name: str) -> None:
    """Remove a container with all that runs in it; returns when the engine has it no more.

    Raises:
        HostError: It is still there.
    """
    path = f"/containers/{segment(name)}"
    query = {"force": "1", "v": "1"}
    deadline = anyio.current_time() + _GONE_S
    while True:
        last: HostError | None = None
        try:
            answer = await engine.call("DELETE", path, query=query, doing=f"remove the container {name}", ok=(404, 409))
            if answer.status in (204, 200, 404):
                return
        except EngineError as error:
            # It may be ending by itself, which the engine calls an error.
            if error.status < 500:
                raise
            last = error
        except HostError as error:
            last = error
        if anyio.current_time() >= deadline:
            raise last or HostError(f"the engine has been removing the container {name} for {_GONE_S:g} s")
        await anyio.sleep(_POLL_S)
