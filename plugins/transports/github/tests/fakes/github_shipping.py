"""A shipment as most tests make it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentix.api import StepContext
from agentix.plugins.transports.github import Github


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


async def ship(source: Path, repo: Path | str, ctx: StepContext, **inputs: Any) -> Any:
    transport = Github()
    given = {"dest": "jobs/nightly/r1", "repo": str(repo), **inputs}
    return await transport.ship(source, transport.Inputs.model_validate(given), ctx)
