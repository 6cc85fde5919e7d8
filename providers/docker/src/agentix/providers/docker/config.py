"""The options of the provider `docker`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class DockerConfig(BaseModel):
    """What `--provider-opt` takes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str | None = None
    """Address of the engine, such as `unix:///run/podman/podman.sock` or `tcp://engine:2376`; by default `DOCKER_HOST`,
    else the current docker context, else the usual sockets."""
    context: str | None = None
    """Name of the docker context to use."""
    pull: Literal["missing", "always", "never"] = "missing"
    """When an image is pulled that a task names, or a Dockerfile builds on: at most once for each provider object."""
    rebuild: bool = False
    """Build images again that are there already, once for each provider object, and without what the builder keeps."""
    builder: Literal["auto", "buildkit", "classic"] = "auto"
    """What builds images. `auto` is BuildKit where the engine has it and is not set to the classic builder."""
    hardened: bool = False
    """Drop all capabilities but those for switching users, killing and files, and let nobody gain any (breaks sudo)."""
    read_only: bool = False
    """Make the root file system read-only; /tmp, /run and /var/tmp are writable and live in memory."""
    pids: Annotated[int, Field(gt=0)] = 4096
    """Processes and threads in a sandbox that names no limit."""
    storage: Literal["enforce", "ignore"] = "enforce"
    """What becomes of `storage_mb` where the engine's storage driver cannot limit it: refused, or left aside with a
    note."""
    runtime_mount: Literal["auto", "bind", "volume"] = "auto"
    """How agentix's runtime gets into a container: from a directory that the engine sees, or from a volume that is
    filled once. `auto` takes the volume where the engine does not see our directories."""
    oci_runtime: str | None = None
    """The engine's runtime to use, such as `runsc`; its default otherwise."""
    public_network: str = "default"
    """The engine's network for sandboxes that may reach the world."""
    builds: Annotated[int, Field(gt=0)] = 2
    """Images that are built at a time."""
    pulls: Annotated[int, Field(gt=0)] = 3
    """Images that are pulled at a time."""
    pull_timeout_s: Annotated[float, Field(gt=0)] = 1800.0
    """Seconds that an image may take to arrive, waiting for the registry included."""
    reconnect_s: Annotated[float, Field(ge=0, le=3600)] = 30.0
    """Seconds for which a stream that was lost is dialled again while its sandbox lives, and for which a sandbox whose
    host is gone waits before it ends; 0 ends a sandbox with its stream."""
    warm: Annotated[int, Field(ge=0)] = 0
    """Containers to keep ready of each of the last four configs that were asked for at least twice."""
    lease_s: Annotated[float, Field(gt=0)] = 86_400.0
    """Seconds after which `agentix gc` on another machine may take a sandbox for abandoned; on this machine it looks at
    the process that owns it."""
