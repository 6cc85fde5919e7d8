"""What a build needs before it can start: a builder that can do it, the images it builds on, its archive and key."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Literal

from agentix.api import ImageBuild
from agentix.providers.docker import classic
from agentix.providers.docker.bases import Base, bases, platform_variables
from agentix.providers.docker.context import Context, hides_dockerfile, pack, read_dockerfile
from agentix.providers.docker.dockerfile import Dockerfile
from agentix.providers.docker.facts import Facts
from agentix.providers.docker.heredocs import lower
from agentix.providers.docker.image import Image, normal

Builder = Literal["buildkit", "classic", "podman"]

_HEREDOCS = (1, 42)
"""The API of Docker 23, whose BuildKit is the first to know heredocs and `--link`."""

_PODMAN_HEREDOCS = (4, 8)
"""The Podman whose builder is the first to know them (Buildah 1.33)."""


@dataclass(frozen=True, kw_only=True)
class BuildPlan:
    """How an image is going to be built."""

    build: ImageBuild
    builder: Builder
    dockerfile: Dockerfile
    bases: tuple[Base, ...]
    args: Mapping[str, str]
    """The build's arguments, with what the builder does not set itself."""
    platforms: Mapping[str, str]
    heredocs: bool
    """Whether the builder needs heredocs to be rewritten."""


def plan_build(build: ImageBuild, *, facts: Facts, wanted: str) -> BuildPlan:
    """Read the Dockerfile and choose the builder.

    Args:
        build: What to build.
        facts: The engine.
        wanted: The provider's option `builder`.

    Raises:
        EnvFailed: The Dockerfile cannot be read, is malformed, or needs what the builder cannot do.
    """
    dockerfile = read_dockerfile(build)
    builder, why = _builder(build, dockerfile, facts, wanted)
    classic.refuse_secrets(dockerfile, build.dockerfile_path)
    if builder == "classic":
        classic.refuse(dockerfile, build.dockerfile_path, why=why)
    own = f"{facts.os}/{normal(facts.architecture)}"
    platforms = platform_variables(own, build.platform)
    found = bases(dockerfile, args=build.args, platforms=platforms, platform=build.platform, all_=builder == "classic")
    if builder == "buildkit" and dockerfile.syntax and not classic.is_official(dockerfile.syntax):
        # The frontend is an image too, which a build without a session of its own cannot fetch.
        found = (Base(name=dockerfile.syntax, platform=None, line=1), *found)
    args = build.args
    if builder != "buildkit":
        args = {**classic.declared_platforms(dockerfile, platforms), **args}
    return BuildPlan(
        build=build,
        builder=builder,
        dockerfile=dockerfile,
        bases=found,
        args=args,
        platforms=platforms if builder == "classic" else {},
        heredocs=builder == "classic" or not _knows_heredocs(facts),
    )


def write_context(plan: BuildPlan, file: IO[bytes]) -> Context:
    """Write the archive for the engine.

    Raises:
        EnvFailed: Something cannot be read.
    """
    result = lower(
        plan.dockerfile,
        args=plan.build.args,
        platforms=plan.platforms,
        heredocs=plan.heredocs,
        classic=plan.builder == "classic",
    )
    return pack(plan.build, file, result)


def key_of(context: Context, found: Sequence[tuple[Base, Image]]) -> str:
    """What the image is found again by: its content and that of the images it builds on, not their names."""
    ids = sorted({(base.name, base.platform or "", image.id) for base, image in found})
    return hashlib.sha256(json.dumps([context.digest, ids]).encode()).hexdigest()


def _knows_heredocs(facts: Facts) -> bool:
    found, oldest = (facts.version, _PODMAN_HEREDOCS) if facts.podman else (facts.api, _HEREDOCS)
    numbers = re.match(r"(\d+)\.(\d+)", found)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= oldest


def _builder(build: ImageBuild, dockerfile: Dockerfile, facts: Facts, wanted: str) -> tuple[Builder, str]:
    if facts.podman:
        return "podman", ""
    if wanted == "classic":
        return "classic", "builder=classic was asked for"
    if wanted == "buildkit":
        return "buildkit", ""
    if facts.builder == "1":
        return "classic", "this engine is set to the classic builder"
    if hides_dockerfile(build) and not any(classic.needs(dockerfile)):
        # A context that is sent with the request shows BuildKit's COPY the Dockerfile, wherever it came from.
        return "classic", ""
    return "buildkit", ""
