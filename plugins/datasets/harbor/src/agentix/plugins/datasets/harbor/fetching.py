"""Copies things from a sandbox to a place of their own on the host, within the flow's limits."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio

from agentix.api import Flow, HostError, Sandbox, TrialError

_SCRATCH = ".collecting"
_UNKEPT_S = 300.0


async def fetch(flow: Flow, sandbox: Sandbox, source: str, place: Path) -> bool:
    """Copy a file or a tree to `place`, which does not exist yet.

    Returns:
        Whether there is such a thing in the sandbox.

    Raises:
        TrialError: It could not be copied.
    """
    if flow.log_dir is not None:
        copies = await flow.collect(sandbox, [source], into=_SCRATCH)
        await anyio.to_thread.run_sync(_settle, copies[0] if copies else None, place, flow.log_dir / _SCRATCH)
        return bool(copies)
    try:
        with anyio.fail_after(_UNKEPT_S):
            report = await sandbox.download(source, place)
    except FileNotFoundError:
        return False
    except TimeoutError:
        raise HostError(f"copying {source} took over {_UNKEPT_S:g} s", detail="collect_timeout") from None
    except OSError as error:
        raise HostError(f"{source} could not be copied: {error}") from error
    for refusal in report.refused[:5]:
        flow.note(f"not copied out of the sandbox: {refusal.path}: {refusal.reason}")
    return True


async def keep_logs(flow: Flow, sandbox: Sandbox, source: str, place: Path | None) -> None:
    """Copy logs to the host where logs are kept; a failure is noted, since it changes no result."""
    if place is None or not sandbox.alive:
        return
    try:
        await fetch(flow, sandbox, source, place)
    except TrialError as error:
        flow.note(f"{source} was not kept: {error.message}")


def _settle(copy: Path | None, place: Path, scratch: Path) -> None:
    if copy is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir() and copy.is_dir() and not copy.is_symlink():
            for child in copy.iterdir():
                if not (place / child.name).exists():
                    child.rename(place / child.name)
        else:
            copy.rename(place)
    shutil.rmtree(scratch, ignore_errors=True)
