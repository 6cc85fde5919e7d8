"""From what the host asks to a running command: shell, program, user, environment."""

from __future__ import annotations

import posix

from agentix.runtime import users
from agentix.runtime.command import Command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agentix.runtime.server import Server

DEFAULT_PATH = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SHELL_DIRECTORIES = (b"/bin", b"/usr/bin", b"/usr/local/bin")


def start(server: Server, number: int, arguments: dict[str, Any]) -> Command:
    """Start a command.

    Args:
        server: The server it came to.
        number: The call's id.
        arguments: `command` (bytes for a shell, or a list), `cwd`, `env`, `user`, `stdin`, `keep`, `timeout_s`, `pty`.
    """
    settings = server.settings
    chosen = arguments["user"] if arguments["user"] is not None else settings["user"]
    user = users.usable(users.resolve(chosen if chosen is not None else settings["base_user"]))
    env = environment(settings, arguments, user, chosen=chosen is not None)
    if arguments["pty"]:
        env.setdefault("TERM", b"xterm")
    path = env["PATH"].split(b":")
    command = arguments["command"]
    if isinstance(command, bytes):
        program = _find(b"bash", path) or _find(b"sh", path)
        argv = [program.rpartition(b"/")[2] if program else b"sh", b"-c", command]
        programs = [program] if program else []
    else:
        argv = command
        name = argv[0]
        programs = [name] if b"/" in name else [_below(directory, name) for directory in path]
    pty = arguments["pty"]
    spec = specification(
        user, argv, programs, env=env, cwd=arguments["cwd"], pty=pty, stdin=arguments["stdin"] and not pty
    )
    return Command(server, number, spec, arguments, (user.uid, user.gid) if spec["switch"] else None)


def specification(
    user: users.User,
    argv: list[bytes],
    programs: list[bytes],
    *,
    env: dict[str, bytes],
    cwd: bytes,
    pty: bool,
    stdin: bool,
) -> dict[str, Any]:
    """A command as who starts it takes it.

    Args:
        user: Whose rights it has.
        argv: The program's name and its arguments.
        programs: Where the program may be; the first that exists is started.
        env: All of its variables.
        cwd: Where it starts.
        pty: Whether stdout is the terminal that it has.
        stdin: Whether there is a descriptor for it.
    """
    return {
        "argv": argv,
        "programs": programs,
        "env": env,
        "cwd": cwd,
        "switch": not user.is_current,
        "uid": user.uid,
        "gid": user.gid,
        "groups": user.groups,
        "pty": pty,
        "stdin": stdin,
    }


def environment(
    settings: dict[str, Any], arguments: dict[str, Any], user: users.User, *, chosen: bool
) -> dict[str, bytes]:
    """The variables of a command: the sandbox's, the user's, the config's and the call's own."""
    derived = {
        "HOME": user.home.encode("utf-8", "surrogateescape"),
        "USER": user.name.encode("utf-8", "surrogateescape"),
        "LOGNAME": user.name.encode("utf-8", "surrogateescape"),
    }
    base = {"PATH": DEFAULT_PATH}
    # A user that was asked for has its own home; the sandbox's own user has what the sandbox says.
    layers = (settings["base_env"], derived) if chosen else (derived, settings["base_env"])
    for layer in (*layers, settings["env"], arguments["env"]):
        base.update(layer)
    return base


def _find(name: bytes, path: list[bytes]) -> bytes | None:
    for directory in (*path, *_SHELL_DIRECTORIES):
        candidate = _below(directory, name)
        if directory and posix.access(candidate, posix.X_OK):
            return candidate
    return None


def _below(directory: bytes, name: bytes) -> bytes:
    return (directory or b".") + b"/" + name
