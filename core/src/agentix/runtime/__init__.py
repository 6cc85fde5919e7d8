"""What runs inside every sandbox: a small server on one duplex stream, and the wire it speaks.

Standard library only, and of that only modules written in C: a sandbox starts as fast as its interpreter does.
"""

from __future__ import annotations

SERVER_ARGS: tuple[str, ...] = ("-c", "from agentix.runtime.server import main; main()")
"""Appended to an interpreter with its flags, this starts the server.

`--fd N` after it is an inherited connected stream socket to speak on.
"""

__all__ = ["SERVER_ARGS"]
