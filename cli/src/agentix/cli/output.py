"""Writing to a stream that may be closed, dumb or narrow in what it can encode."""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import TextIO

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """The text without control characters, which could do anything to a terminal; tabs and newlines stay."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


class Output:
    """A text stream that never raises: what cannot be encoded is escaped, and a closed stream swallows.

    Args:
        stream: Where to write; `None` where the process was started without it.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self.stream = stream
        self.closed = stream is None

    @classmethod
    def stdout(cls) -> Output:
        """The standard output."""
        return cls(sys.stdout)

    @classmethod
    def stderr(cls) -> Output:
        """The standard error."""
        return cls(sys.stderr)

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at it and lines can be redrawn."""
        try:
            is_tty = self.stream is not None and not self.closed and self.stream.isatty()
        except ValueError:
            return False
        return is_tty and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")

    @property
    def width(self) -> int | None:
        """How many columns a person sees; `None` where nobody looks, so that a line stays a line."""
        return shutil.get_terminal_size().columns if self.is_terminal else None

    @property
    def encoding(self) -> str:
        """What the stream encodes to."""
        return getattr(self.stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """Write some text as it is."""
        if self.stream is None or self.closed:
            return len(text)
        try:
            self.stream.write(text.encode(self.encoding, "backslashreplace").decode(self.encoding))
        except (OSError, ValueError):
            self.close()
        return len(text)

    def flush(self) -> None:
        """Hand on what was written."""
        if self.stream is None or self.closed:
            return
        try:
            self.stream.flush()
        except (OSError, ValueError):
            self.close()

    def line(self, text: str = "") -> None:
        """Write one line, made harmless, and hand it on."""
        self.write(printable(text) + "\n")
        self.flush()

    def isatty(self) -> bool:
        """The same as `is_terminal`, under the name that libraries ask for."""
        return self.is_terminal

    def fileno(self) -> int:
        """The descriptor below.

        Raises:
            OSError: There is none.
        """
        if self.stream is None:
            raise OSError("closed")
        return self.stream.fileno()

    def close(self) -> None:
        """Write nothing more."""
        self.closed = True
        try:
            # Otherwise the interpreter complains at its end about what is still in the buffer.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
        except (OSError, ValueError):
            return
