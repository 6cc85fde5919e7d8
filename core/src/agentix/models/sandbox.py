"""What a sandbox is asked to be, and what is known of one that exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Network = Literal["none", "public", "allowlist"]

_FROZEN = ConfigDict(frozen=True, extra="forbid")


class Capability(StrEnum):
    """One optional behaviour of a provider; what is not declared is refused by name, never ignored."""

    ISOLATION = "isolation"
    """The sandbox's processes, files and environment are apart from the host's."""
    IMAGES = "images"
    """Runs a container image given by name."""
    IMAGE_BUILD = "image_build"
    """Builds an image from any Dockerfile."""
    USERS = "users"
    """Runs commands as several users."""
    NETWORK_PUBLIC = "network_public"
    NETWORK_ALLOWLIST = "network_allowlist"
    NETWORK_SWITCH = "network_switch"
    """Changes between `none` and `public` while a sandbox runs."""
    MEMORY_LIMIT = "memory_limit"
    CPU_LIMIT = "cpu_limit"
    PIDS_LIMIT = "pids_limit"
    STORAGE_LIMIT = "storage_limit"
    GPUS = "gpus"
    COMPOSE = "compose"
    """Runs the services of a compose file beside the sandbox, where the compose plugin is installed."""
    LISTING = "listing"
    """`list` finds sandboxes that another process made, so that `agentix gc` can delete them."""


class ImageBuild(BaseModel):
    """An image to be built from a Dockerfile."""

    model_config = _FROZEN

    context: Path
    """The directory that the Dockerfile copies from."""
    dockerfile: Path | None = None
    """Defaults to `context/Dockerfile`."""
    args: dict[str, str] = Field(default_factory=dict)
    platform: str | None = None

    @property
    def dockerfile_path(self) -> Path:
        """The Dockerfile itself."""
        return self.dockerfile or self.context / "Dockerfile"


class Compose(BaseModel):
    """Services that run beside a sandbox, on a private network, as a compose file tells.

    See https://github.com/compose-spec/compose-spec/blob/main/spec.md.
    """

    model_config = _FROZEN

    files: tuple[Path, ...] = Field(min_length=1)
    """The files, a later one over an earlier one; relative paths in them start where the first one lies."""
    service: str = "main"
    """The service that is the sandbox. What it says of image, environment, volumes and networks holds for the sandbox,
    where the sandbox's config says nothing else."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Values of `${…}` in the files, before those of this process's environment."""


class Mount(BaseModel):
    """A host path made visible inside a sandbox."""

    model_config = _FROZEN

    source: Path
    target: str
    read_only: bool = True


class SandboxConfig(BaseModel):
    """One sandbox to create. A provider honours every field or refuses it by name."""

    model_config = _FROZEN

    image: str | ImageBuild | None = None
    bundle: str | None = None
    """Reference of a bundle: `name:tag`, `sha256:…`, or the path of an exported one."""
    workdir: str | None = None
    """Directory of commands that name none; `None` means the image's own."""
    env: dict[str, str] = Field(default_factory=dict)
    """Added to the environment of every command."""
    user: str | None = None
    """User of commands that name none; `None` means the image's own."""
    network: Network = "none"
    allowed_hosts: tuple[str, ...] = ()
    cpus: Annotated[float, Field(gt=0)] | None = None
    memory_mb: Annotated[int, Field(gt=0)] | None = None
    storage_mb: Annotated[int, Field(gt=0)] | None = None
    pids: Annotated[int, Field(gt=0)] | None = None
    gpus: Annotated[int, Field(ge=0)] = 0
    mounts: tuple[Mount, ...] = ()
    compose: Compose | None = None
    """What runs beside it; it lives and ends with the sandbox."""
    platform: str | None = None
    build_timeout_s: Annotated[float, Field(gt=0)] | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    """Run id, trial id and whatever else should identify the sandbox to `list`."""


@dataclass(frozen=True, kw_only=True)
class SandboxInfo:
    """A sandbox that exists."""

    id: str
    provider: str
    labels: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"
    """Absolute directory inside the sandbox in which commands start."""
    temporary: str = "/tmp"  # noqa: S108 - a path in the sandbox
    """Absolute directory inside the sandbox for what is to be gone with it, outside of `workdir`."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment of commands before the config's and the call's own variables."""
    user: str | None = None
    image_digest: str | None = None
    created_at: float | None = None
    """Seconds since the epoch."""
    notes: tuple[str, ...] = ()
    """What the user should know once per run, such as a limit that could not be set."""


@dataclass(frozen=True, kw_only=True)
class RuntimeMount:
    """A base runtime on the host, to be mounted read-only at `/agentix/runtime`."""

    path: Path
    digest: str
    argv: tuple[str, ...]
    """Command that starts the runtime's interpreter, with paths as seen inside the sandbox."""
