"""What runs inside every sandbox: a small server on one duplex stream, and the wire it speaks.

Standard library only, and of that only modules written in C: a sandbox starts as fast as its interpreter does.
"""

SERVER_ARGS: tuple[str, ...] = (
    "-c",
    "import marshal, posix, sys\n"
    "exec(marshal.loads(posix.read(posix.open(sys.prefix + '/agentix.runtime.start', 0), 1 << 24)))\n"
    "main()",
)
"""Appended to the command of a base runtime, this starts the server.

`--fd N` after it is an inherited connected stream socket to speak on, and `--remove PATH` after that a directory to
remove at the end, so that none stays behind where the host is killed. `--stdio` speaks on stdin and stdout. After that
may stand a directory, a program and its arguments, to be started once the host has said hello: an image's entrypoint.
"""

BRIDGE_ARGS: tuple[str, ...] = ("-c", "from agentix.runtime.bridge import main; main()")
"""Appended to an interpreter with its flags, and followed by the name of a server's socket, this leads to that server
from stdin and stdout. Only an engine can start it, from outside of the sandbox, and as the server's user.
"""

PAUSE_ARGS: tuple[str, ...] = ("-c", "from _signal import pause\nwhile True: pause()")
"""Appended to an interpreter with its flags, this does nothing until it is ended."""

__all__ = ["BRIDGE_ARGS", "PAUSE_ARGS", "SERVER_ARGS"]
