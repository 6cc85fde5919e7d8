"""Whether rclone knows a remote, which its configuration and the environment tell."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches

from agentix.api import ask_tool, without_logins
from agentix.plugins.transports.rclone.environment import OWN, held
from agentix.plugins.transports.rclone.exit_status import failure
from agentix.plugins.transports.rclone.inputs import RcloneInputs

_SHOWN = 10


def remote_problems(inputs: RcloneInputs, names: Sequence[str]) -> Iterator[str]:
    """What is wrong with the remote; nothing where rclone does not answer in time.

    Args:
        inputs: They name it.
        names: The variables that rclone gets.
    """
    remote = inputs.remote[:-1]
    if f"RCLONE_CONFIG_{remote.upper().replace('-', '_')}_TYPE" in os.environ:
        return  # older versions do not list those
    result = ask_tool(["rclone", "listremotes"], host_env=names, env=OWN)
    if result.timed_out:
        return
    if not result.ok:
        said = without_logins(held(names).data(result.stderr))
        yield str(failure(replace(result, stderr=said), "looking for its remotes"))
        return
    there = sorted(line.rstrip(":") for line in result.text.splitlines() if line.endswith(":"))
    if remote not in there:
        near = get_close_matches(remote, there, 1)
        listed = ", ".join(there[:_SHOWN]) + (", …" if len(there) > _SHOWN else "")
        meant = f"; did you mean {near[0]}?" if near else f"; it has {listed}" if there else ", nor any other"
        yield f"rclone has no remote {remote}{meant}: `rclone config` makes one"
