"""What an engine says of itself, and the version of the API that is agreed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentix.providers.docker.connecting import EngineAbsent
from agentix.providers.docker.endpoint import Endpoint

NEWEST, OLDEST = (1, 51), (1, 40)
"""Versions of the API that are spoken here; 1.41 is Docker 20.10, 1.40 what Podman 3 says."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What an engine says of itself."""

    api: str
    version: str
    podman: bool
    os: str
    architecture: str
    storage_driver: str = ""
    backing: str = ""
    runtimes: frozenset[str] = frozenset()
    cannot_limit: frozenset[str] = frozenset()
    """Fields of a sandbox's config that it does not enforce."""
    name: str = ""
    id: str = ""
    builder: str = ""
    """The builder that it prefers: `2` is BuildKit, `1` the classic one; empty where it does not say."""


def read_facts(api: str, version: Mapping[str, Any], info: Mapping[str, Any], *, builder: str) -> Facts:
    """What matters of what an engine says.

    Args:
        api: The version of the API that was agreed on.
        version: Its answer to `/version`.
        info: Its answer to `/info`.
        builder: The builder that it prefers.
    """
    components = [str(part.get("Name")) for part in version.get("Components") or ()]
    status = {str(pair[0]): str(pair[1]) for pair in info.get("DriverStatus") or () if len(pair) == 2}
    limits = {"memory_mb": "MemoryLimit", "cpus": "CpuCfsQuota", "pids": "PidsLimit"}
    return Facts(
        api=api,
        version=str(version.get("Version")),
        podman=any("podman" in name.lower() for name in components),
        os=str(info.get("OSType") or version.get("Os") or "linux"),
        architecture=str(version.get("Arch") or info.get("Architecture") or ""),
        storage_driver=str(info.get("Driver") or ""),
        backing=status.get("Backing Filesystem", status.get("Backing filesystem", "")),
        runtimes=frozenset(info.get("Runtimes") or ()),
        cannot_limit=frozenset(name for name, key in limits.items() if info.get(key) is False),
        name=str(info.get("Name") or ""),
        id=str(info.get("ID") or ""),
        builder=builder,
    )


def agreed(version: Mapping[str, Any], endpoint: Endpoint) -> str:
    """The version of the API that both speak.

    Raises:
        EngineAbsent: There is none.
    """
    try:
        newest = _numbers(version["ApiVersion"])
        oldest = _numbers(version.get("MinAPIVersion") or "1.0")
    except (KeyError, TypeError, ValueError) as error:
        raise no_engine(endpoint, "it names no version of the API") from error
    if newest < OLDEST or oldest > NEWEST:
        raise EngineAbsent(
            f"the container engine {version.get('Version')} at {endpoint.url} speaks API {version['ApiVersion']}, "
            f"and agentix {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}",
            hint="Docker 20.10 and Podman 3 are the oldest that can be used",
        )
    chosen = min(newest, NEWEST)
    return f"{chosen[0]}.{chosen[1]}"


def no_engine(endpoint: Endpoint, reason: str) -> EngineAbsent:
    """What answers at the address is something else."""
    return EngineAbsent(
        f"what answers at {endpoint.url} is no container engine: {reason}",
        hint="check that address: `--provider-opt host=`, DOCKER_HOST or the docker context",
    )


def _numbers(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor.split(".")[0])
