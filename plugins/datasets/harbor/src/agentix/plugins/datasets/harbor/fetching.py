"""Copies things from a sandbox to a place of their own on the host, within the flow's limits."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

import anyio

from agentix.api import Flow, HostError, Sandbox, TrialError

_SCRATCH = ".collecting"
_UNKEPT_S = 300.0
T = TypeVar("T")


async def fetch(flow: Flow, sandbox: Sandbox, source: str, place: Path) -> bool:
    """Copy a file or a tree to `place`, which does not exist yet.

    Returns:
        Whether there was anything to copy.

    Raises:
        TrialError: It could not be copied.
    """
    if flow.log_dir is not None:
        copies = await flow.collect(sandbox, [source], into=_SCRATCH)
        return await anyio.to_thread.run_sync(_settle, copies, place, flow.log_dir / _SCRATCH)
    report = await _copied(source, sandbox.download(source, place), what=source)
    if report is None:
        return False
    for refusal in report.refused[:5]:
        flow.note(f"not copied out of the sandbox: {source}: {os.fsdecode(refusal.path)}: {refusal.reason}")
    return await anyio.Path(place).exists()


async def fetch_from_service(flow: Flow, sandbox: Sandbox, service: str, source: str, place: Path) -> bool:
    """Copy a file or a tree out of a service beside the sandbox to `place`, which does not exist yet.

    Returns:
        Whether there was anything to copy.

    Raises:
        TrialError: It could not be copied.
    """
    copying = sandbox.service(service).download(source, place)
    left_out = await _copied(source, copying, what=f"{source} of the service {service}")
    if left_out is None:
        return False
    for reason in left_out[:5]:
        flow.note(f"not copied out of the service {service}: {source}: {reason}")
    return await anyio.Path(place).exists()


async def keep_logs(flow: Flow, sandbox: Sandbox, source: str, place: Path | None) -> None:
    """Copy logs to the host where logs are kept; a failure is noted, since it changes no result."""
    if place is None or not sandbox.alive:
        return
    try:
        await fetch(flow, sandbox, source, place)
    except TrialError as error:
        flow.note(f"{source} was not kept: {error.message}")


async def _copied(source: str, copying: Awaitable[T], *, what: str) -> T | None:
    """What was left out of a copy; `None` where there was nothing to copy."""
    try:
        with anyio.fail_after(_UNKEPT_S):
            return await copying
    except FileNotFoundError:
        return None
    except TimeoutError:
        raise HostError(f"copying {source} took over {_UNKEPT_S:g} s", detail="collect_timeout") from None
    except OSError as error:
        raise HostError(f"{what} could not be copied: {error}") from error


def _settle(copies: list[Path], place: Path, scratch: Path) -> bool:
    # An empty directory comes out as nothing.
    found = bool(copies) and copies[0].exists()
    if found:
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir() and copies[0].is_dir():
            for child in copies[0].iterdir():
                if not (place / child.name).exists():
                    child.rename(place / child.name)
        else:
            copies[0].rename(place)
    shutil.rmtree(scratch, ignore_errors=True)
    return found
