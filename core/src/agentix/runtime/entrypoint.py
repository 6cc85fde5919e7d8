"""The image's own first program, where the server has taken its place: it is started as a child and left alone."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os

from agentix.runtime import spawning, users
from agentix.runtime.execution import environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def start(argv: Sequence[str], cwd: str, settings: dict[str, Any]) -> int:
    """Start it as the image's user, with the sandbox's variables and the log as its output.

    What goes wrong, in the child too, is a line in the log: the sandbox is as good without it.

    Args:
        argv: The program and its arguments.
        cwd: Where it starts.
        settings: The host's hello.

    Returns:
        Its pid, 0 where there is none.
    """
    try:
        user = users.resolve(settings["base_user"])
        env = environment(settings, {"env": {}}, user, chosen=False)
        pid = os.fork()
    except (OSError, users.UnknownUser) as error:
        log(f"the image's entrypoint was not started: {error}")
        return 0
    if pid:
        return pid
    try:
        _signal.set_wakeup_fd(-1)
        for number in spawning.DEFAULTED:
            _signal.signal(number, _signal.SIG_DFL)
        os.setsid()
        os.dup2(2, 1)
        os.chdir(cwd)
        if not user.is_current:
            # It may open /dev/stderr again, as its own.
            os.fchown(2, user.uid, user.gid)
            os.setgroups(user.groups)
            os.setgid(user.gid)
            os.setuid(user.uid)
        _execute([os.fsencode(word) for word in argv], env)
    except OSError as error:
        log(f"the image's entrypoint could not be started: {error}")
    finally:
        os._exit(127)


def _execute(argv: list[bytes], env: dict[str, bytes]) -> None:
    name = argv[0]
    programs = [name] if b"/" in name else [os.path.join(part, name) for part in env["PATH"].split(b":")]
    for program in programs:
        try:
            os.execve(program, argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
    raise FileNotFoundError(2, "no such program", os.fsdecode(name))


def log(line: str) -> None:
    """Write a line to the sandbox's log."""
    try:
        os.write(2, f"agentix runtime: {line}\n".encode("utf-8", "replace"))
    except OSError:
        return
