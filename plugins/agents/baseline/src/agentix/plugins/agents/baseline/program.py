"""What the agent `command` starts, and with which variables."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from agentix.api import EnvFailed
from agentix.plugins.agents.baseline.config import PREFIX, CommandConfig, check_variable
from agentix.plugins.agents.baseline.places import Places

if TYPE_CHECKING:
    from agentix.api import McpServer, Sandbox

_INTERPRETED = b"#!"
_BINARY = b"\x7fELF"


def environment(
    config: CommandConfig,
    places: Places,
    *,
    instance: Mapping[str, Any],
    model: str | None,
    mcp_servers: Sequence[McpServer] = (),
    skills_dir: str | None = None,
) -> dict[str, str]:
    """The variables of the program.

    Raises:
        EnvFailed: One that should be passed on is not set here, or cannot be a variable.
    """
    env = dict(config.env)
    for name in config.pass_env:
        value = os.environ.get(name)
        if value is None:
            raise EnvFailed(
                f"the variable {name} is not set", detail="missing_key", hint="set it, or leave it out of pass_env"
            )
        try:
            check_variable(name, value)
        except ValueError as error:
            raise EnvFailed(str(error), detail="agent_setup") from None
        env[name] = value
    own = {
        "INSTRUCTION_FILE": places.instruction,
        "INSTANCE_ID": str(instance["instance_id"]),
        "TRAJECTORY_FILE": config.trajectory_file or places.trajectory,
        "PATCH_FILE": config.patch_file,
        "MODEL": model,
        "SKILLS_DIR": skills_dir,
        "MCP_SERVERS": json.dumps([server.as_dict() for server in mcp_servers]) if mcp_servers else None,
    }
    return env | {PREFIX + name: value for name, value in own.items() if value is not None}


async def command_line(
    config: CommandConfig, sandbox: Sandbox, places: Places, *, user: str | None, info: dict[str, Any]
) -> str | list[str]:
    """What to run; a script is brought into the sandbox first.

    Raises:
        EnvFailed: The script cannot be read any more.
    """
    if config.script is None:
        assert config.command is not None
        return config.command
    try:
        data = await to_thread.run_sync(config.script.read_bytes)
    except OSError as error:
        raise EnvFailed(f"the script cannot be read: {error}", detail="agent_setup") from error
    if not data.startswith(_BINARY) and b"\r\n" in data.partition(b"\n")[0] + b"\n":
        # The kernel and every shell take the carriage return for a part of the line.
        data = data.replace(b"\r\n", b"\n")
        info["script_note"] = "its line ends were CRLF and were made LF"
    await sandbox.write_file(places.script, data, mode=0o700, user=user)
    direct = data.startswith((_INTERPRETED, _BINARY))
    return [*([] if direct else ["sh"]), places.script, *config.args]
