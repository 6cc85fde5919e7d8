"""Waits for registries that say "too many requests", all pulls together."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime
from typing import TypeVar

import anyio

from agentix.providers.docker.engine import EngineError

T = TypeVar("T")

_LOG = logging.getLogger("agentix.providers.docker")
_FIRST_S, _LONGEST_S = 2.0, 120.0
_TOO_MANY = re.compile(r"toomanyrequests|too many requests|\b429\b|rate limit", re.IGNORECASE)
_AFTER = re.compile(r"retry[- ]after:?\s*(\d+)", re.IGNORECASE)


class Pacing:
    """One clock for everybody who asks registries for something."""

    def __init__(self) -> None:
        self._not_before = 0.0

    async def run(self, what: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work again for as long as a registry asks for patience; the caller limits the time.

        Raises:
            EngineError: It failed for another reason.
        """
        wait_s = _FIRST_S
        while True:
            await anyio.sleep(max(0.0, self._not_before - time.monotonic()))
            try:
                return await work()
            except EngineError as error:
                if not is_too_many(error):
                    raise
                asked = asked_for_s(error)
                pause = wait_s if asked is None else asked
                wait_s = min(wait_s * 2, _LONGEST_S)
                self._not_before = max(self._not_before, time.monotonic() + pause)
                _LOG.warning("%s: the registry asks for patience, next try in %.0f s", what, pause)


def is_too_many(error: EngineError) -> bool:
    """Whether it is the registry's, or the engine's, "too many requests"."""
    return error.status == 429 or _TOO_MANY.search(error.reason) is not None


def asked_for_s(error: EngineError) -> float | None:
    """For how many seconds it asks (RFC 9110, Retry-After: seconds or a date)."""
    said = error.retry_after
    if said is None:
        match = _AFTER.search(error.reason)
        said = match[1] if match else None
    if said is None:
        return None
    if said.strip().isdigit():
        return float(said)
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except ValueError:
        return None
