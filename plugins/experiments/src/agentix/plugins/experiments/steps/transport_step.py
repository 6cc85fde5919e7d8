"""A transport as the step that ships with it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio.to_thread
from pydantic import BaseModel, Field, create_model

from agentix.api import ConfigError, Receipt, Scope, ShipRefused, StepContext, StepOutcome, TellsDestination, Transport
from agentix.cli.api import size

if TYPE_CHECKING:
    from agentix.api import AgentUse, Limits

RECEIPT = "receipt.json"
PATH = "path"
"""The input of every step that ships: what, in the run's directory."""


class TransportStep:
    """Ships with a transport, and keeps what it says has arrived.

    Args:
        transport: It.
        name: What files call the step, such as `ship_hf`.

    Raises:
        ConfigError: The transport has an input of its own where what is shipped is said.
    """

    publishes = True

    def __init__(self, transport: Transport, *, name: str) -> None:
        self.transport = transport
        self.name = name
        self.scopes: frozenset[Scope] = frozenset(transport.scopes) - {Scope.PER_CASE}
        self.Inputs: type[BaseModel] = _with_path(transport.Inputs, name)

    def check(self, inputs: Any, *, agents: Sequence[AgentUse] = (), limits: Limits | None = None) -> Iterable[str]:
        """What keeps the transport from working here, as far as it can tell."""
        check = getattr(self.transport, "check", None)
        return () if check is None else check(inputs)

    def foresee(self, inputs: Any, *, trials: int) -> Iterable[str]:
        """What shipping so many trials one by one comes to, as far as the transport can tell."""
        foresee = getattr(self.transport, "foresee", None)
        return () if foresee is None else foresee(inputs, trials=trials)

    def destination(self, ctx: StepContext, inputs: Any) -> str | None:
        """Where the transport would send what the context names; `None` where it cannot tell.

        Raises:
            ShipRefused: It knows already that it could not.
        """
        if not isinstance(self.transport, TellsDestination) or ctx.path is None:
            return None
        return self.transport.destination(ctx.path, inputs, ctx)

    async def run(self, ctx: StepContext, inputs: Any) -> StepOutcome:
        """Ship what the context names.

        Raises:
            ShipRefused: There is nothing, or the transport says so.
            ShipError: The transport says so.
        """
        from agentix.api import without_logins

        if ctx.path is None:
            raise ShipRefused(f"{self.name}: there is nothing to ship")
        receipt = await self.transport.ship(ctx.path, inputs, ctx)
        if not isinstance(receipt, Receipt):
            raise TypeError(f"{self.name} returned a {type(receipt).__name__}, not a Receipt")
        told = ctx.secrets.within(
            without_logins(
                {
                    "destination": receipt.destination,
                    "files": receipt.files,
                    "bytes": receipt.bytes,
                    "details": dict(receipt.details),
                }
            )
        )
        await anyio.to_thread.run_sync(_write, ctx.work_dir / RECEIPT, told)
        files = f"{receipt.files} {'file' if receipt.files == 1 else 'files'}"
        return StepOutcome(message=f"{files}, {size(receipt.bytes)} to {told['destination']}", outputs=told)


def _with_path(model: type[BaseModel], name: str) -> type[BaseModel]:
    if PATH in model.model_fields:
        raise ConfigError(f"{name}: its Inputs have a {PATH!r}, which is how files say what is shipped")
    said = "What is shipped, in the run's directory; what a step before it made, by default."
    return create_model(
        model.__name__, __base__=model, __module__=model.__module__, path=(str | None, Field(None, description=said))
    )


def _write(path: Path, data: Mapping[str, Any]) -> None:
    temp = path.with_name(f".{uuid4().hex}.tmp")
    try:
        temp.write_text(json.dumps(data, indent=2, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
        temp.replace(path)
    finally:
        temp.unlink(missing_ok=True)
