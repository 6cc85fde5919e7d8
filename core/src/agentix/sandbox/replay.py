"""What Python calls log and print in a sandbox, in the host's logging.

The sandbox chooses neither the logger nor how much there is of it, and no line of it can look like another's.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from agentix.runtime import wire
from agentix.runtime.answer import INLINE, LOG

LINES_A_SECOND, LINES_AT_ONCE = 200, 2000
LONGEST_LINE = 8192

_LEVELS = {wire.STDOUT: logging.INFO, wire.STDERR: logging.WARNING}
_ESCAPED = {number: f"\\x{number:02x}" for number in (*range(32), *range(127, 160)) if chr(number) not in "\n\t"}


class Replay:
    """Takes the pieces of what one worker says.

    Args:
        sandbox_id: Whose worker.
    """

    def __init__(self, sandbox_id: str) -> None:
        self.logger = logging.getLogger(f"agentix.sandbox.{sandbox_id.replace('.', '_')}")
        self._partial = {wire.STDOUT: bytearray(), wire.STDERR: bytearray()}
        self._records = bytearray()
        self._unreadable = False
        self._tokens = float(LINES_AT_ONCE)
        self._last = time.monotonic()
        self._dropped = 0

    @property
    def flooded(self) -> bool:
        """Whether more comes than is logged."""
        return self._dropped > 0

    def feed(self, channel: int, piece: bytes) -> None:
        """Log what is complete."""
        if channel == LOG:
            self._feed_records(piece)
            return
        partial = self._partial.get(channel)
        if partial is None:
            return
        partial += piece
        *lines, rest = partial.split(b"\n")
        for line in lines:
            self._line(channel, bytes(line))
        # Of a line without an end, the first part is one.
        while len(rest) > LONGEST_LINE:
            self._line(channel, bytes(rest[:LONGEST_LINE]))
            del rest[:LONGEST_LINE]
        self._partial[channel] = rest

    def end(self) -> None:
        """Log what has no end of line, and how much was left out."""
        self.end_lines()
        self._tell_dropped()

    def end_lines(self) -> None:
        """Log what has no end of line."""
        for channel, partial in self._partial.items():
            if partial:
                self._line(channel, bytes(partial))
                self._partial[channel] = bytearray()

    def _line(self, channel: int, line: bytes) -> None:
        self._emit(_LEVELS[channel], line.decode("utf-8", "backslashreplace"))

    def _feed_records(self, piece: bytes) -> None:
        if self._unreadable:
            return
        records = self._records
        records += piece
        while len(records) >= 4 and len(records) >= (stop := 4 + int.from_bytes(records[:4], "big")):
            try:
                level, name, text = wire.decode(bytes(records[4:stop]))
                if type(level) is not int or not isinstance(name, str) or not isinstance(text, str):
                    raise wire.Malformed("a log record is none")
            except (ValueError, TypeError):
                self._give_up()
                return
            del records[:stop]
            self._emit(min(max(level, logging.DEBUG), logging.CRITICAL), f"{name[:200]}: {text}")
        if len(records) > 2 * INLINE:
            self._give_up()

    def _give_up(self) -> None:
        self._unreadable = True
        self._records.clear()
        self.logger.warning("the sandbox sent log records that are none; no more of them are read")

    def _emit(self, level: int, text: str) -> None:
        now = time.monotonic()
        self._tokens = min(LINES_AT_ONCE, self._tokens + (now - self._last) * LINES_A_SECOND)
        self._last = now
        if self._tokens < 1:
            self._dropped += 1
            return
        self._tell_dropped()
        self._tokens -= 1
        if self.logger.isEnabledFor(level):
            self.logger.log(level, "%s", printable(text, most=LONGEST_LINE))

    def _tell_dropped(self) -> None:
        if self._dropped:
            self.logger.warning("%d lines of the sandbox were left out: there were too many", self._dropped)
            self._dropped = 0


def printable(text: Any, *, most: int) -> str:
    """Text of a sandbox that no terminal obeys, and whose further lines can be told from those of the host."""
    shown = text if len(text) <= most else f"{text[:most]} … ({len(text) - most} more)"
    return str(shown).translate(_ESCAPED).rstrip("\n").replace("\n", "\n    ")
