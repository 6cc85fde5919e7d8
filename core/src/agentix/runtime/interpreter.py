"""The command that starts another interpreter like the one that the server runs in."""

from __future__ import annotations

import os
import sys

_WORKER = "from agentix.runtime.worker import main; main()"


def worker_command(library: bytes, env: dict[str, bytes]) -> list[bytes]:
    """The worker's, in an image that may hold neither an interpreter nor a loader.

    Args:
        library: A directory of more shared libraries, or nothing.
        env: The worker's environment; where no loader is named, the directory is added to it.
    """
    fd = os.open("/proc/self/cmdline", os.O_RDONLY | os.O_CLOEXEC)
    try:
        words = b""
        while piece := os.read(fd, 1 << 16):
            words += piece
    finally:
        os.close(fd)
    argv = words.split(b"\0")
    # The interpreter's own flags end where the server's program begins.
    argv = argv[: argv.index(b"-c")]
    if library:
        if b"--library-path" in argv:
            place = argv.index(b"--library-path") + 1
            argv[place] += b":" + library
        else:
            env["LD_LIBRARY_PATH"] = library
    # A directory that the interpreter does not search by itself comes last, behind its own library.
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    start = f"import sys; {top!r} in sys.path or sys.path.append({top!r}); {_WORKER}"
    if argv[0] == os.path.basename(argv[0]):
        argv[0] = os.fsencode(sys.executable)
    return [*argv, b"-c", os.fsencode(start)]
