"""The contract of a transport: moves a finished path somewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel

from agentix.interfaces.step_context import Scope, StepContext


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What arrived."""

    destination: str
    """Address of what was shipped, without credentials."""
    files: int
    bytes: int
    details: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class TellsDestination(Protocol):
    """A transport that knows where something would go, so that `--dry-run` can tell it."""

    def destination(self, source: Path, inputs: Any, ctx: StepContext) -> str:
        """Say where to, as the receipt would, without asking the network: the repository, the branch, the folder.

        Args:
            source: As for `Transport.ship`.
            inputs: As for `Transport.ship`.
            ctx: As for `Transport.ship`; nothing is written to its `work_dir`.

        Raises:
            ShipRefused: It can be told already that it cannot go there.
        """
        ...


@runtime_checkable
class Transport(Protocol):
    """One way out. A transport named `my-store` is usable as the step `ship_my_store`."""

    scopes: frozenset[Scope]
    Inputs: type[BaseModel]
    host_env: tuple[str, ...]
    """The only variables of the host's environment that its tool gets."""

    async def ship(self, source: Path, inputs: Any, ctx: StepContext) -> Receipt:
        """Send a path and check that it arrived; safe to repeat, and it never prompts.

        Args:
            source: A file or a directory without links, to be read only; it holds nothing but what may be published.
            inputs: Where to, by convention as `dest`, and how.
            ctx: The unit that it is of; `work_dir` is free to be written to, and `say` tells the user one line.

        Raises:
            ShipRefused: It cannot arrive before somebody changes something: a missing program, a login, a size.
            ShipError: It did not arrive, and may do so later.
        """
        ...
