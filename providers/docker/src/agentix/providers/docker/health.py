"""The healthcheck that a compose file gives the sandbox's own service, run by the engine as for any service."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import anyio

from agentix.api import EnvFailed
from agentix.providers.docker.engine import Engine, segment

_POLL_S = 0.1
_TAIL = 500
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|us|µs|ns|m|s)")
_TIMES = {"interval": "Interval", "timeout": "Timeout", "start_period": "StartPeriod"}


def healthcheck_of(main: Mapping[str, Any]) -> dict[str, Any] | None:
    """The healthcheck as the engine's API takes it, where the service has one.

    Raises:
        EnvFailed: A time in it is no duration.
    """
    check = main.get("healthcheck") or {}
    test = check.get("test")
    if not test or check.get("disable") or test == ["NONE"]:
        return None
    found: dict[str, Any] = {"Test": ["CMD-SHELL", test] if isinstance(test, str) else [str(word) for word in test]}
    for name, key in _TIMES.items():
        if check.get(name):
            found[key] = int(seconds(str(check[name]), where=f"services.main.healthcheck.{name}") * 1e9)
    if check.get("retries"):
        found["Retries"] = int(check["retries"])
    return found


def seconds(duration: str, *, where: str) -> float:
    """A duration such as `1m30s` (compose specification, "Specifying durations").

    Raises:
        EnvFailed: It is none.
    """
    parts = _PART.findall(duration)
    if not parts or "".join(number + unit for number, unit in parts) != duration:
        raise EnvFailed(f"compose: {where}: {duration!r} is no duration such as 1m30s", detail="compose")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


async def wait_healthy(engine: Engine, sandbox_id: str) -> None:
    """Wait until the engine has found a container healthy; one that ends meanwhile is found out elsewhere.

    Raises:
        EnvFailed: It is not healthy after as many tries as its check has.
    """
    while True:
        path = f"/containers/{segment(sandbox_id)}/json"
        answer = await engine.call("GET", path, doing="look at the sandbox's health", ok=(404,))
        state = {} if answer.status == 404 else answer.json()["State"]
        health = state.get("Health") or {}
        if not state.get("Running") or health.get("Status") in (None, "none", "healthy"):
            return
        if health["Status"] == "unhealthy":
            said = str((health.get("Log") or [{}])[-1].get("Output") or "").strip()[-_TAIL:]
            raise EnvFailed(
                "the sandbox's own service in the compose file is not healthy" + (f": {said}" if said else ""),
                detail="healthcheck",
            )
        await anyio.sleep(_POLL_S)
