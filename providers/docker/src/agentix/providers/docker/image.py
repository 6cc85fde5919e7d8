"""What an image says of itself, and whether this engine can run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentix.api import EnvFailed
from agentix.providers.docker.facts import Facts

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i386": "386", "i686": "386"}


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image that the engine has."""

    id: str
    name: str
    env: Mapping[str, str]
    user: str | None
    workdir: str
    entrypoint: tuple[str, ...]
    os: str
    architecture: str
    variant: str = ""
    digest: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def platform(self) -> str:
        """As `docker --platform` has it."""
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


def read_image(name: str, data: Mapping[str, Any], *, notes: tuple[str, ...] = ()) -> Image:
    """From what the engine's inspect gives."""
    config = data.get("Config") or {}
    pairs = [str(entry).partition("=") for entry in config.get("Env") or ()]
    entrypoint = config.get("Entrypoint") or ()
    digests = data.get("RepoDigests") or ()
    return Image(
        id=str(data["Id"]),
        name=name,
        env={key: value for key, equals, value in pairs if equals},
        user=config.get("User") or None,
        workdir=config.get("WorkingDir") or "/",
        entrypoint=(entrypoint,) if isinstance(entrypoint, str) else tuple(str(word) for word in entrypoint),
        os=str(data.get("Os") or "linux"),
        architecture=normal(str(data.get("Architecture") or "")),
        variant=str(data.get("Variant") or ""),
        digest=str(digests[0]).rpartition("@")[2] if digests else str(data["Id"]),
        notes=notes,
    )


def normal(architecture: str) -> str:
    """An architecture as images name it."""
    return _ARCHITECTURES.get(architecture, architecture)


def matches(image: Image, platform: str) -> bool:
    """Whether an image is of a platform such as `linux/arm64`."""
    os, _, rest = platform.partition("/")
    architecture, _, variant = rest.partition("/")
    return (os, normal(architecture)) == (image.os, image.architecture) and variant in ("", image.variant)


def check_platform(image: Image, *, wanted: str | None, facts: Facts) -> None:
    """Refuse an image of another platform than was asked for, or than the engine's own.

    Raises:
        EnvFailed: It is of another one.
    """
    own = f"{facts.os}/{normal(facts.architecture)}"
    if wanted is not None and not matches(image, wanted):
        raise EnvFailed(
            f"the image {image.name} is for {image.platform}, and platform asks for {wanted}",
            detail="image_platform",
            hint="pull or build it for that platform, or ask for the one it has",
        )
    if wanted is None and image.architecture and not matches(image, own):
        raise EnvFailed(
            f"the image {image.name} is for {image.platform}, and this engine runs {own}",
            detail="image_platform",
            hint=f"use an image for {own}; where the engine emulates others (binfmt), say platform={image.platform}",
        )
