"""What the classic builder cannot do, said before it fails in words of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from agentix.api import EnvFailed
from agentix.providers.docker.dockerfile import Dockerfile, Instruction, words
from agentix.providers.docker.variables import declared

_FLAGS = {
    "RUN": frozenset({"network", "security"}),
    "COPY": frozenset({"chmod", "exclude", "parents"}),
    "ADD": frozenset({"chmod", "exclude", "checksum", "keep-git-dir"}),
}
_OFFICIAL = ("docker/dockerfile", "docker.io/docker/dockerfile")


def needs(dockerfile: Dockerfile) -> Iterator[tuple[int, str]]:
    """What only BuildKit can do: the line and the words."""
    if dockerfile.syntax is not None and not is_official(dockerfile.syntax):
        yield 1, f"# syntax={dockerfile.syntax}"
    for one in dockerfile.instructions:
        for name, value in one.flags:
            if name == "mount" and one.keyword == "RUN":
                kind = mount_kind(value)
                if kind == "cache" or (kind in ("secret", "ssh") and "required=true" not in value):
                    continue
                yield one.line, f"RUN --mount=type={kind}"
            elif name in _FLAGS.get(one.keyword, ()) and not (name == "chmod" and _is_all_heredocs(one)):
                yield one.line, f"{one.keyword} --{name}"


def refuse(dockerfile: Dockerfile, path: Path, *, why: str) -> None:
    """Refuse what the classic builder cannot do.

    Args:
        dockerfile: What is to be built.
        path: Where it lies.
        why: Why it is the classic builder that builds.

    Raises:
        EnvFailed: It needs BuildKit; the message has the line.
    """
    for line, what in needs(dockerfile):
        raise EnvFailed(
            f"{path}: line {line}: {what} needs BuildKit, and {why}",
            detail="image_build",
            hint="use a Docker engine with BuildKit (20.10 or newer), or write the Dockerfile without it",
        )


def refuse_secrets(dockerfile: Dockerfile, path: Path) -> None:
    """Refuse mounts of secrets that a build cannot do without: agentix gives builds none.

    Raises:
        EnvFailed: There is one.
    """
    for one in dockerfile.instructions:
        for name, value in one.flags:
            if one.keyword == "RUN" and name == "mount" and "required=true" in value:
                raise EnvFailed(
                    f"{path}: line {one.line}: RUN --mount=type={mount_kind(value)} requires what agentix gives no "
                    "build",
                    detail="image_build",
                    hint="build the image yourself with its secret, and let the task name the image",
                )


def declared_platforms(dockerfile: Dockerfile, platforms: Mapping[str, str]) -> dict[str, str]:
    """Those of TARGETARCH and the like that the Dockerfile declares, as arguments for a builder without them."""
    names = {name for one in dockerfile.instructions if one.keyword == "ARG" for name, _ in declared(one.rest)}
    return {name: value for name, value in platforms.items() if name in names}


def is_official(syntax: str) -> bool:
    """Whether a frontend is Docker's own, of which every engine with BuildKit has one."""
    return syntax.partition(":")[0].partition("@")[0] in _OFFICIAL


def mount_kind(value: str) -> str:
    """The type of a mount."""
    fields = [field.partition("=") for field in value.split(",")]
    return next((kind for name, _, kind in fields if name == "type"), "bind")


def _is_all_heredocs(one: Instruction) -> bool:
    """Whether all sources are heredocs, whose files get the mode otherwise."""
    *sources, _ = one.arguments.split() or [""]
    return bool(sources) and len(sources) == len(words(one.arguments))
