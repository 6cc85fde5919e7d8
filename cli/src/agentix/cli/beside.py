"""What a session of a run does besides its trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio

from agentix.cli.runlog import log

if TYPE_CHECKING:
    from agentix.records import ExperimentWriter, RunWriter


async def keep_progress(writer: RunWriter | ExperimentWriter, progress: Mapping[str, object]) -> None:
    """Write progress.json; where it cannot be written, the run goes on."""
    try:
        await writer.write_progress(progress)
    except OSError as error:
        log.warning("progress.json could not be written: %s", error)


async def close_provider(provider: object, *, within_s: float) -> Exception | None:
    """Have a provider end what it holds, whatever is being cancelled.

    Args:
        provider: The provider, if any.
        within_s: How long that may take.

    Returns:
        What it raised.
    """
    aclose = getattr(provider, "aclose", None)
    if aclose is not None:
        with anyio.move_on_after(within_s, shield=True):
            try:
                await aclose()
            except Exception as error:
                return error
    return None
