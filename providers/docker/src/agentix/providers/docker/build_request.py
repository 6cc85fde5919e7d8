"""One request to the engine to build an image, with what it says along the way."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

import anyio.to_thread

from agentix.providers.docker.engine import Engine, EngineError
from agentix.providers.docker.http import FileBody
from agentix.providers.docker.pacing import is_too_many
from agentix.providers.docker.progress import messages
from agentix.providers.docker.trace import Trace

if TYPE_CHECKING:
    from agentix.providers.docker.build_log import BuildLog
    from agentix.providers.docker.build_plan import BuildPlan
    from agentix.providers.docker.context import Context

LOG = logging.getLogger("agentix.providers.docker")
LABEL, ORIGIN = "agentix.build", "agentix.build.of"
REPOSITORY = "agentix-build"

_STEP = re.compile(r"(?:\[\d+/\d+\] )?Step \d+/\d+ ?: |#\d+ \[(?!internal\])", re.IGNORECASE)
_RUN = re.compile(r"(?:\[\d+/\d+\] )?Step \d+/\d+ ?: RUN |#\d+ \[[^\]]*\] RUN ", re.IGNORECASE)
_SHOWN = 160


async def request(
    engine: Engine,
    plan: BuildPlan,
    context: Context,
    file: IO[bytes],
    *,
    name: str,
    log: BuildLog,
    without_cache: bool = False,
) -> None:
    """Build the image.

    Args:
        engine: The engine.
        plan: How.
        context: What lies in the archive.
        file: The archive.
        name: What the image is called.
        log: Gets what the builder says.
        without_cache: Whether the builder does everything again.

    Raises:
        EngineAbsent: The engine does not answer.
        EngineError: It cannot be built.
    """
    log.begin()
    build = plan.build
    query = {
        "dockerfile": context.dockerfile,
        "t": name,
        "rm": "1",
        "forcerm": "1",
        "buildargs": json.dumps(plan.args),
        "labels": json.dumps({LABEL: context.digest, ORIGIN: "/".join(build.dockerfile_path.parts[-3:])}),
        # The context comes with the request, so that BuildKit needs no session; it pulls nothing either.
        **({"version": "2"} if plan.builder == "buildkit" else {}),
        **({"nocache": "1"} if without_cache else {}),
        **({"platform": build.platform} if build.platform else {}),
    }
    headers = {"Content-Type": "application/x-tar"}
    logins = await anyio.to_thread.run_sync(_logins)
    if logins:
        headers["X-Registry-Config"] = logins
    doing = "build the image"
    trace = Trace()
    async with engine.stream(
        "POST", "/build", query=query, headers=headers, body=FileBody(file), doing=doing
    ) as pieces:
        try:
            async for message in messages(pieces, doing=doing):
                for line in _lines(message, trace):
                    log.add(line)
                    if _STEP.match(line):
                        log.ran = _RUN.match(line) is not None
                        LOG.info("%s: %s", build.dockerfile_path, line.strip()[:_SHOWN])
        except EngineError as error:
            if not is_too_many(error):
                log.add(f"{error.reason}\n")
            raise


def _lines(message: dict[str, Any], trace: Trace) -> Iterator[str]:
    if message.get("id") == "moby.buildkit.trace":
        yield from trace.read(message.get("aux"))
        return
    text = str(message.get("stream") or message.get("status") or "")
    if text and not message.get("progressDetail"):
        yield text if text.endswith("\n") else f"{text}\n"


def _logins() -> str | None:
    """The header with every login that docker has stored; a build's FROM may name any registry."""
    from docker.auth import encode_header, load_config  # type: ignore[import-untyped]
    from docker.errors import DockerException  # type: ignore[import-untyped]

    try:
        found = load_config().get_all_credentials()
    except (DockerException, OSError, ValueError) as error:
        LOG.warning("the stored logins cannot be read, so images are built without them: %s", error)
        return None
    return encode_header(found).decode("ascii") if found else None
