"""What a fake can be told to do at one of its stages: fail, hang, wait, or lose its sandbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import anyio

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of a fake."""

    stage: str
    name: str
    """Id of the instance, or of the sandbox where a provider is called."""
    sandbox: Sandbox | None = None


class LosesSandboxes(Protocol):
    """A provider whose sandboxes can be made to die."""

    async def lose(self, sandbox: Sandbox) -> None:
        """End a sandbox without deleting it."""
        ...


Action = Callable[[Call], Awaitable[None]]
"""Runs at the beginning of a stage."""


def fail(error: BaseException | Callable[[], BaseException], *, times: int | None = None) -> Action:
    """Raise an error.

    Args:
        error: What to raise, or what makes it.
        times: Only the first calls fail; `None` for all of them.
    """
    left = [times]

    async def action(call: Call) -> None:
        if left[0] == 0:
            return
        if left[0] is not None:
            left[0] -= 1
        raise error if isinstance(error, BaseException) else error()

    return action


def hang() -> Action:
    """Never come back by itself."""

    async def action(call: Call) -> None:
        await anyio.sleep_forever()

    return action


def delay(seconds: float) -> Action:
    """Take some time."""

    async def action(call: Call) -> None:
        await anyio.sleep(seconds)

    return action


def die(provider: LosesSandboxes) -> Action:
    """Lose the sandbox, as when its machine goes away."""

    async def action(call: Call) -> None:
        if call.sandbox is None:
            raise ValueError(f"there is no sandbox to lose in {call.stage}")
        await provider.lose(call.sandbox)

    return action


def only(names: str | Iterable[str], action: Action) -> Action:
    """Run an action for some instances and do nothing for the others."""
    chosen = {names} if isinstance(names, str) else set(names)

    async def chosen_action(call: Call) -> None:
        if call.name in chosen:
            await action(call)

    return chosen_action


class Script:
    """The actions of one fake, by stage.

    Args:
        actions: What happens at which stage.
        stages: The stages that exist.

    Raises:
        ValueError: There is no such stage.
    """

    def __init__(self, actions: Mapping[str, Action] | None, *, stages: frozenset[str]) -> None:
        self._actions = dict(actions or {})
        if unknown := sorted(set(self._actions) - stages):
            raise ValueError(f"there is no stage {unknown[0]!r}; there is {', '.join(sorted(stages))}")

    async def run(self, stage: str, name: str, *, sandbox: Sandbox | None = None) -> None:
        """Do what was scripted for this stage."""
        action = self._actions.get(stage)
        if action is not None:
            await action(Call(stage=stage, name=name, sandbox=sandbox))
