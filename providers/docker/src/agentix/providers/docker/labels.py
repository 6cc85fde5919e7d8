"""What a container's labels say: whose it is, and what the sandbox was asked to be found by."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentix.api import Owner, SandboxInfo
from agentix.providers.docker.compose_project import BESIDE

PROVIDER = "agentix.provider"
_OWNER = "agentix.owner"
_LEASE = "agentix.lease"
_NAMES = "agentix.labels"
_PLACE = "agentix.sandbox"
WARM = "agentix.warm"
"""On a container that was made for nobody yet: whose it became is written down on this machine."""
_OURS = frozenset({PROVIDER, _OWNER, _LEASE, _NAMES, _PLACE})


def labels_for(
    labels: Mapping[str, str], *, workdir: str, user: str | None, created_at: float, lease_s: float
) -> dict[str, str]:
    """The labels of a new container."""
    return {
        **labels,
        PROVIDER: "docker",
        _OWNER: json.dumps(vars(Owner.this_process())),
        _LEASE: str(int(created_at + lease_s)),
        # An image has labels too, which the engine merges with these.
        _NAMES: json.dumps(sorted(labels)),
        _PLACE: json.dumps({"workdir": workdir, "user": user, "created_at": created_at}),
    }


@dataclass(frozen=True, kw_only=True)
class Found:
    """A sandbox's container that the engine lists."""

    info: SandboxInfo
    owner: Owner | None
    lease_until: float
    warm: bool = False
    """Whether it was made for nobody yet."""
    beside: bool = False
    """Whether this is a part of what runs beside the sandbox."""

    @property
    def abandoned(self) -> bool:
        """Whether nobody can be using it: its owner on this machine is dead, or its lease elsewhere is over."""
        if self.owner is not None and self.owner.host == Owner.this_process().host:
            if self.owner.is_dead():
                return True
            if self.owner.pid_namespace == Owner.this_process().pid_namespace:
                return False
        return time.time() > self.lease_until


def read(container: Mapping[str, Any]) -> Found | None:
    """A container as the engine lists it, or None where it is not a sandbox."""
    labels = container.get("Labels") or {}
    names = [str(name).lstrip("/") for name in container.get("Names") or ()]
    if labels.get(PROVIDER) != "docker" or not names:
        return None
    own = _value(labels, _NAMES, list)
    place = _value(labels, _PLACE, dict) or {}
    try:
        owner: Owner | None = Owner(**(_value(labels, _OWNER, dict) or {}))
    except TypeError:
        owner = None
    lease = str(labels.get(_LEASE, ""))
    return Found(
        info=SandboxInfo(
            id=str(labels.get(BESIDE, names[0])),
            provider="docker",
            labels={str(name): str(labels[name]) for name in own or () if name in labels},
            workdir=str(place.get("workdir", "/")),
            user=place.get("user"),
            created_at=place.get("created_at", container.get("Created")),
        ),
        owner=owner,
        lease_until=float(lease) if lease.isdigit() else 0.0,
        warm=WARM in labels,
        beside=BESIDE in labels,
    )


def _value(labels: Mapping[str, str], name: str, kind: type) -> Any:
    try:
        value = json.loads(labels[name])
    except (KeyError, ValueError, TypeError):
        return None
    return value if isinstance(value, kind) else None
