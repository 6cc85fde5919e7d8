"""The descriptors of a stream to the host: one of a connected socket, or two of pipes.

The module for sockets would take the server longer to load than all that it does for one command.
"""

from __future__ import annotations

import posix


class Stream:
    """One stream, which owns its descriptors.

    Args:
        source: Where to read from.
        sink: Where to write to; the same by default.
    """

    def __init__(self, source: int, sink: int | None = None) -> None:
        self.source = source
        self.sink = source if sink is None else sink
        posix.set_blocking(self.source, False)
        posix.set_blocking(self.sink, False)

    def receive(self, most: int) -> bytes:
        """Read what there is."""
        return posix.read(self.source, most)

    def send(self, data: bytes | bytearray) -> int:
        """Write what fits."""
        return posix.write(self.sink, data)

    def close(self) -> None:
        """Hang up."""
        posix.close(self.source)
        if self.sink != self.source:
            posix.close(self.sink)
