"""Where the console scripts start: outside the namespace, so that they can say what is wrong with it."""

from __future__ import annotations

import os
import signal
import sys


def agentix() -> int:
    """The command `agentix`."""
    return _start("agentix")


def agentix_run() -> int:
    """The command `agentix-run`, the same as `agentix rollout`."""
    return _start("agentix-run")


def _start(name: str) -> int:
    _open_standard_streams()
    try:
        code = _run(name)
    except KeyboardInterrupt:
        # Before the command could answer it, such as while it was still being imported.
        code = 128 + signal.SIGINT
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # All is said: now it may only end the process, and not with a traceback out of the interpreter's own end.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return code


def _run(name: str) -> int:
    try:
        from agentix.cli.app import main
    except ImportError:
        origin = _shadow()
        if origin is None:
            raise
        sys.stderr.write(
            f"error: {origin} hides the packages of agentix-rollouts\n"
            f"  agentix is a namespace of several distributions, and that file makes it belong to one. Remove it, or\n"
            f"  uninstall what it came with (pip uninstall agentix) from {sys.executable}.\n"
        )
        return 2
    return main(name)


def _open_standard_streams() -> None:
    """Put /dev/null where a standard stream is closed.

    Otherwise the next file that is opened becomes the standard output of every program that is started.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(opened, True)


def _shadow() -> str | None:
    """The file of a foreign `agentix`, where one is found instead of the namespace."""
    from importlib.util import find_spec

    spec = find_spec("agentix")
    return spec.origin if spec is not None and spec.has_location else None
