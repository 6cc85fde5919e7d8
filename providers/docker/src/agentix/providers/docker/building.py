"""Builds images from Dockerfiles: once for all who wait, found again by content, with the log kept where it fails."""

from __future__ import annotations

import json
import logging
import re
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

import anyio
import anyio.to_thread

from agentix.api import EnvFailed, HostError, ImageBuild, cache_dir
from agentix.providers.docker.context import Context, fingerprint, pack
from agentix.providers.docker.engine import Engine, EngineError
from agentix.providers.docker.flight import Flights
from agentix.providers.docker.http import FileBody
from agentix.providers.docker.image import Image
from agentix.providers.docker.pacing import is_too_many
from agentix.providers.docker.progress import messages

if TYPE_CHECKING:
    from agentix.providers.docker.config import DockerConfig
    from agentix.providers.docker.pacing import Pacing
    from agentix.providers.docker.pulling import Pulls

_LOG = logging.getLogger("agentix.providers.docker")
_TAIL = 4000
_STEP = re.compile(r"Step \d+/\d+ : ", re.IGNORECASE)
_REGISTRY = re.compile(r"i/o timeout|connection (?:refused|reset)|no such host|TLS handshake|temporary failure", re.I)
LABEL = "agentix.build"
REPOSITORY = "agentix-build"


class Builds:
    """The images that are given by a Dockerfile.

    Args:
        engine: The engine.
        options: The provider's options.
        pulls: Finds images.
        pacing: The clock of all registries.
    """

    def __init__(self, engine: Engine, options: DockerConfig, pulls: Pulls, pacing: Pacing) -> None:
        self._engine = engine
        self._options = options
        self._pulls = pulls
        self._pacing = pacing
        self._flights: Flights[Image] = Flights()
        self._built: dict[str, Image] = {}
        self._width = anyio.CapacityLimiter(options.builds)

    async def get(self, build: ImageBuild, *, platform: str | None, timeout_s: float | None) -> Image:
        """The image, built where the engine does not have it.

        Args:
            build: What to build.
            platform: What the sandbox asks for; the build's own goes first.
            timeout_s: Seconds that building may take, from when it starts.

        Raises:
            EnvFailed: It cannot be built, or not in time.
            HostError: The engine or a registry failed.
        """
        if platform is not None and build.platform is None:
            build = build.model_copy(update={"platform": platform})
        key = await anyio.to_thread.run_sync(fingerprint, build)
        if key not in self._built:
            self._built[key] = await self._flights.run(key, lambda: self._get(build, timeout_s))
        return self._built[key]

    def forget(self, image: Image) -> None:
        """Build it again: the engine has lost it."""
        self._built = {key: found for key, found in self._built.items() if found.id != image.id}

    async def _get(self, build: ImageBuild, timeout_s: float | None) -> Image:
        facts = await self._engine.facts()
        with tempfile.TemporaryFile() as file:
            # Podman's builder knows heredocs. The classic one does not, and BuildKit speaks a protocol of its own.
            context = await anyio.to_thread.run_sync(lambda: pack(build, file, lowered=not facts.podman))
            name = f"{REPOSITORY}:{context.digest[:32]}"
            found = await self._pulls.find(name)
            if found is not None:
                return found
            async with self._width:
                return await self._build(build, context, file, name, timeout_s)

    async def _build(
        self, build: ImageBuild, context: Context, file: IO[bytes], name: str, timeout_s: float | None
    ) -> Image:
        log: list[str] = []
        began = time.monotonic()
        what = f"building {build.dockerfile_path}"
        _LOG.info("%s", what)
        try:
            with anyio.fail_after(timeout_s):
                await self._pacing.run(what, lambda: self._run(build, context, file, name, log))
        except TimeoutError as error:
            raise await self._failed(
                build, context, log, f"took more than {timeout_s:g} s", detail="build_timeout"
            ) from error
        except EngineError as error:
            if error.detail == "disk_full":
                raise
            if error.status >= 500 and _REGISTRY.search(error.reason) and not _ran(log):
                raise HostError(f"{what}: {error.reason}", detail="image_pull") from error
            raise await self._failed(build, context, log, error.reason) from error
        image = await self._pulls.find(name)
        if image is None:
            raise HostError(f"the engine built {name} and does not have it", detail="image_build")
        note = f"docker: built {build.dockerfile_path} in {time.monotonic() - began:.0f} s"
        _LOG.info("%s", note)
        return image

    async def _run(self, build: ImageBuild, context: Context, file: IO[bytes], name: str, log: list[str]) -> None:
        log.clear()
        query = {
            "dockerfile": context.dockerfile,
            "t": name,
            "rm": "1",
            "forcerm": "1",
            "buildargs": json.dumps(build.args),
            "labels": json.dumps({LABEL: context.digest}),
            **({"platform": build.platform} if build.platform else {}),
        }
        headers = {"Content-Type": "application/x-tar"}
        logins = await anyio.to_thread.run_sync(_logins)
        if logins:
            headers["X-Registry-Config"] = logins
        doing = "build the image"
        async with self._engine.stream(
            "POST", "/build", query=query, headers=headers, body=FileBody(file), doing=doing
        ) as pieces:
            try:
                async for message in messages(pieces, doing=doing):
                    text = str(message.get("stream") or message.get("status") or "")
                    if message.get("progressDetail") or not text:
                        continue
                    log.append(text if text.endswith("\n") else f"{text}\n")
                    if _STEP.match(text):
                        _LOG.info("%s: %s", build.dockerfile_path, text.strip())
            except EngineError as error:
                if not is_too_many(error):
                    log.append(f"{error.reason}\n")
                raise

    async def _failed(
        self, build: ImageBuild, context: Context, log: list[str], reason: str, *, detail: str = "image_build"
    ) -> EnvFailed:
        text = "".join(log)
        path = cache_dir() / "docker" / "builds" / f"{context.digest[:32]}.log"
        try:
            await anyio.to_thread.run_sync(_keep, path, text)
            hint = f"the whole log is in {path}"
        except OSError as error:
            hint = f"the log could not be kept in {path}: {error.strerror}"
        tail = text[-_TAIL:].rstrip()
        message = f"the image of {build.dockerfile_path} cannot be built: {reason.strip()}"
        return EnvFailed(f"{message}\n{tail}" if tail else message, detail=detail, hint=hint)


def _ran(log: list[str]) -> bool:
    """Whether a command of the Dockerfile was the last thing under way: what it failed of is its own affair."""
    steps = [line for line in log if _STEP.match(line)]
    return bool(steps) and " : RUN " in steps[-1].upper()


def _keep(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="replace")


def _logins() -> str | None:
    """The header with every login that docker has stored; a build's FROM may name any registry."""
    from docker.auth import encode_header, load_config  # type: ignore[import-untyped]
    from docker.errors import DockerException  # type: ignore[import-untyped]

    try:
        found = load_config().get_all_credentials()
    except (DockerException, OSError, ValueError) as error:
        _LOG.warning("the stored logins cannot be read, so images are built without them: %s", error)
        return None
    return encode_header(found).decode("ascii") if found else None
