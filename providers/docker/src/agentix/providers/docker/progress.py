"""The engine's progress messages: lines of JSON, told now and then, with the error that one of them may be."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

from agentix.providers.docker.engine import EngineError

_LOG = logging.getLogger("agentix.providers.docker")
_EVERY_S = 5.0
_LINE = 1 << 22


async def messages(pieces: AsyncIterator[bytes], *, doing: str) -> AsyncIterator[dict[str, Any]]:
    """The messages of a pull or a build.

    Raises:
        EngineError: One of them is an error.
    """
    buffer = b""
    async for piece in pieces:
        *lines, buffer = (buffer + piece).split(b"\n")
        if len(buffer) > _LINE:
            raise EngineError(500, "it sends a message without end", doing=doing)
        for line in lines:
            yield _message(line, doing)
    if buffer.strip():
        yield _message(buffer, doing)


def _message(line: bytes, doing: str) -> dict[str, Any]:
    if not line.strip():
        return {}
    try:
        message = json.loads(line)
    except ValueError as error:
        raise EngineError(500, f"it sends {line[:200]!r}", doing=doing) from error
    if not isinstance(message, dict):
        return {}
    if "error" in message:
        detail = message.get("errorDetail")
        code = detail.get("code") if isinstance(detail, dict) else None
        raise EngineError(code if isinstance(code, int) else 500, str(message["error"]), doing=doing)
    return message


class Layers:
    """How far the layers of a pull have come.

    Args:
        what: What is being pulled.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._layers: dict[str, tuple[int, int]] = {}
        self._told = time.monotonic()

    def add(self, message: dict[str, Any]) -> None:
        """Take a message, and tell how far it is where that was long ago."""
        progress = message.get("progressDetail")
        if message.get("status") == "Downloading" and isinstance(progress, dict):
            current, total = progress.get("current"), progress.get("total")
            if isinstance(current, int):
                self._layers[str(message.get("id"))] = (current, total if isinstance(total, int) else 0)
        if time.monotonic() - self._told >= _EVERY_S:
            self._told = time.monotonic()
            _LOG.info("%s: %.0f of %.0f MB", self._what, self.bytes / 1e6, self._total / 1e6)

    @property
    def bytes(self) -> int:
        """Bytes downloaded."""
        return sum(current for current, _ in self._layers.values())

    @property
    def _total(self) -> int:
        return sum(max(pair) for pair in self._layers.values())
