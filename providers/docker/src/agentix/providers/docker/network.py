"""Changes the network of a container that runs."""

from __future__ import annotations

from agentix.api import Network, SandboxGone, Unsupported
from agentix.providers.docker.engine import Engine, segment

_NONE = "none"


async def set_network(engine: Engine, sandbox_id: str, network: Network, *, public: str) -> None:
    """Disconnect a container from what it may not reach any more, and connect it to what it may.

    Args:
        engine: The engine.
        sandbox_id: The container's name.
        network: `none` or `public`.
        public: The engine's network for `public`.

    Raises:
        Unsupported: It is neither of the two.
        SandboxGone: There is no such container.
        HostError: The engine failed.
    """
    if network == "allowlist":
        raise Unsupported("provider docker cannot enforce network 'allowlist': an engine's networks know no host names")
    doing = "change the network of the sandbox"
    answer = await engine.call("GET", f"/containers/{segment(sandbox_id)}/json", doing=doing, ok=(404,))
    if answer.status == 404:
        raise SandboxGone(f"the sandbox {sandbox_id} does not exist any more")
    connected = set((answer.json().get("NetworkSettings") or {}).get("Networks") or {})
    wanted = {"bridge" if public == "default" else public} if network == "public" else set[str]()
    # A container on the network `none` can have no other besides.
    for name in sorted(connected - wanted):
        body: dict[str, object] = {"Container": sandbox_id, "Force": True}
        await engine.call("POST", f"/networks/{segment(name)}/disconnect", body=body, doing=doing, ok=(404,))
    for name in wanted - connected:
        body = {"Container": sandbox_id, "EndpointConfig": {}}
        await engine.call("POST", f"/networks/{segment(name)}/connect", body=body, doing=doing)
