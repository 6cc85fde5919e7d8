"""Values of `env` tables that come from the host's environment: `${VAR}` and `${VAR:-default}`.

As in Harbor, a value is a template only as a whole, the default stands in for an unset variable (an empty
one is a value), and it is taken as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from agentix.api import EnvFailed

_TEMPLATE = re.compile(r"\$\{(?P<name>[^}:]+)(:-(?P<default>.*))?\}", re.DOTALL)


def resolve_env(env: Mapping[str, str], *, where: str, host: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables with every template replaced.

    Args:
        env: Names and values as in the file.
        where: The file and the table, for the message.
        host: The variables to take values from; by default this process's.

    Raises:
        EnvFailed: Variables without a default are not set.
    """
    host = os.environ if host is None else host
    resolved: dict[str, str] = {}
    missing: list[str] = []
    for key, value in env.items():
        match = _TEMPLATE.fullmatch(value)
        if match is None:
            resolved[key] = value
        elif match["name"] in host:
            resolved[key] = host[match["name"]]
        elif match["default"] is not None:
            resolved[key] = match["default"]
        else:
            missing.append(f"{where}.{key} needs the variable {match['name']}, which is not set")
    if missing:
        raise EnvFailed("; ".join(missing), detail="missing_variable", hint="Set it where agentix is started.")
    return resolved


def partial_templates(env: Mapping[str, str]) -> list[str]:
    """Keys whose value holds a template inside other text, where it is not replaced."""
    return [key for key, value in env.items() if not _TEMPLATE.fullmatch(value) and _TEMPLATE.search(value)]
