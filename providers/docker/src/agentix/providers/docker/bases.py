"""The images that a Dockerfile builds on, so that they are there before it, and a build knows when one has changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from agentix.providers.docker.dockerfile import Dockerfile, Instruction
from agentix.providers.docker.variables import argued, expanded

_STAGE = re.compile(r"(\S+)(?:\s+AS\s+(\S+))?\s*$", re.IGNORECASE)
_FROM = re.compile(r"(?:^|,)from=([^,]+)")


@dataclass(frozen=True, kw_only=True)
class Base:
    """An image that has to be there."""

    name: str
    platform: str | None
    line: int


@dataclass(kw_only=True)
class _Stage:
    names: frozenset[str]
    uses: list[Base] = field(default_factory=list)


def platform_variables(own: str, target: str | None) -> dict[str, str]:
    """TARGETPLATFORM, BUILDPLATFORM and their parts, as BuildKit has them.

    Args:
        own: The engine's platform.
        target: What is built for; the engine's own by default.
    """
    found: dict[str, str] = {}
    for prefix, platform in (("BUILD", own), ("TARGET", target or own)):
        os, architecture, variant = (*platform.split("/"), "", "", "")[:3]
        found |= {f"{prefix}PLATFORM": platform, f"{prefix}OS": os}
        found |= {f"{prefix}ARCH": architecture, f"{prefix}VARIANT": variant}
    return found


def bases(
    dockerfile: Dockerfile, *, args: Mapping[str, str], platforms: Mapping[str, str], platform: str | None, all_: bool
) -> tuple[Base, ...]:
    """The images of FROM, `COPY --from` and `RUN --mount=from=`, each once.

    Args:
        dockerfile: The Dockerfile.
        args: The build's arguments.
        platforms: What `platform_variables` gives.
        platform: What is built for, where that was said.
        all_: Whether stages that the last one does not need are built too.
    """
    stages = _stages(dockerfile, args=args, platforms=platforms, platform=platform)
    wanted = list(range(len(stages))) if all_ else [len(stages) - 1] if stages else []
    seen: set[int] = set()
    found: dict[tuple[str, str | None], Base] = {}
    while wanted:
        number = wanted.pop()
        if number in seen:
            continue
        seen.add(number)
        for use in stages[number].uses:
            stage = _stage_of(use.name, stages[:number])
            if stage is not None:
                wanted.append(stage)
            elif use.name.lower() != "scratch":
                found.setdefault((use.name, use.platform), use)
    return tuple(sorted(found.values(), key=lambda base: base.line))


def _stages(
    dockerfile: Dockerfile, *, args: Mapping[str, str], platforms: Mapping[str, str], platform: str | None
) -> list[_Stage]:
    known = dict(platforms)
    stages: list[_Stage] = []
    for one in dockerfile.instructions:
        if one.keyword == "ARG" and not stages:
            known |= argued(one.rest, known, args)
        elif one.keyword == "FROM" and (match := _STAGE.match(expanded(one.arguments, known))):
            own = expanded(one.flag("platform") or "", known) or platform
            names = {str(len(stages)), *([match[2].lower()] if match[2] else [])}
            stages.append(_Stage(names=frozenset(names), uses=[Base(name=match[1], platform=own, line=one.line)]))
        elif stages:
            stages[-1].uses += [Base(name=name, platform=platform, line=one.line) for name in _sources(one)]
    return stages


def _sources(one: Instruction) -> Iterator[str]:
    for name, value in one.flags:
        if name == "from" and one.keyword in ("COPY", "ADD") and "$" not in value:
            yield value
        if name == "mount" and one.keyword == "RUN" and (match := _FROM.search(value)) and "$" not in match[1]:
            yield match[1]


def _stage_of(name: str, before: list[_Stage]) -> int | None:
    for number in reversed(range(len(before))):
        if name.lower() in before[number].names:
            return number
    return None
