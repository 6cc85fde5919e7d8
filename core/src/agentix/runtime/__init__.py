"""What runs inside every sandbox: a small server on one duplex stream, and the wire it speaks.

Standard library only, and of that only modules written in C: a sandbox starts as fast as its interpreter does.
"""

SERVER_ARGS: tuple[str, ...] = ("-c", "from agentix.runtime.start import main; main()")
"""Appended to an interpreter with its flags, this starts the server.

`--fd N` after it is an inherited connected stream socket to speak on, and `--remove PATH` after that a directory to
remove at the end, so that none stays behind where the host is killed.
"""

__all__ = ["SERVER_ARGS"]
