"""Network policies of task.toml, and which one a sandbox gets."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from agentix.api import Network

NetworkMode = Literal["public", "no-network", "allowlist"]

_NETWORKS: dict[str, Network] = {"public": "public", "no-network": "none", "allowlist": "allowlist"}
_LABEL = re.compile(r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")


@dataclass(frozen=True, kw_only=True)
class NetworkPolicy:
    """What one phase may reach."""

    mode: NetworkMode
    hosts: tuple[str, ...] = ()

    @property
    def network(self) -> Network:
        """The word that a sandbox's config has for it."""
        return _NETWORKS[self.mode]

    def __str__(self) -> str:
        return f'"{self.mode}"' + (f" ({', '.join(self.hosts)})" if self.hosts else "")


def normalized_hosts(hosts: Iterable[str] | None) -> tuple[str, ...] | None:
    """Host names (`*.` may lead), IP addresses and CIDR ranges, in lower case.

    Raises:
        ValueError: One of them is something else, such as a URL or a host with a port.
    """
    return None if hosts is None else tuple(_normalized(host) for host in hosts)


def _normalized(host: str) -> str:
    name = host.strip().lower().rstrip(".")
    if "%" not in name:
        try:
            return ipaddress.ip_network(name).compressed if "/" in name else ipaddress.ip_address(name).compressed
        except ValueError:
            pass
    if not all(_LABEL.match(label) for label in name.removeprefix("*.").split(".")):
        raise ValueError(f"{host!r} is neither a host name, an IP address nor a CIDR range (no URL, port or path)")
    return name
