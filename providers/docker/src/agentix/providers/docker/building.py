"""Builds images from Dockerfiles: once for all who wait, found again by content, with the log kept."""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

import anyio
import anyio.to_thread

from agentix.api import EnvFailed, HostError, ImageBuild, cache_dir
from agentix.providers.docker.build_log import BuildLog
from agentix.providers.docker.build_plan import BuildPlan, key_of, plan_build, write_context
from agentix.providers.docker.build_request import LOG, REPOSITORY, request
from agentix.providers.docker.context import fingerprint
from agentix.providers.docker.engine import Engine, EngineError, segment
from agentix.providers.docker.flight import Flights
from agentix.providers.docker.host_lock import host_lock, lock_file
from agentix.providers.docker.image import Image

if TYPE_CHECKING:
    from agentix.providers.docker.bases import Base
    from agentix.providers.docker.config import DockerConfig
    from agentix.providers.docker.context import Context
    from agentix.providers.docker.pacing import Pacing
    from agentix.providers.docker.pulling import Pulls

_REGISTRY = re.compile(r"i/o timeout|connection (?:refused|reset)|no such host|TLS handshake|temporary failure", re.I)
_OLD = re.compile(r"unknown flag|unknown instruction|parse error", re.IGNORECASE)


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
        self._built: Flights[Image] = Flights()
        self._rebuilt: set[str] = set()
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
        return await self._built.get(key, lambda: self._get(build, timeout_s))

    def forget(self, image: Image) -> None:
        """Build it again: the engine has lost it."""
        self._built.forget(lambda found: found.id == image.id)

    async def _get(self, build: ImageBuild, timeout_s: float | None) -> Image:
        facts = await self._engine.facts()
        plan = await anyio.to_thread.run_sync(
            lambda: plan_build(build, facts=facts, wanted=self._options.builder), abandon_on_cancel=True
        )
        bases = [(base, await self._base(plan, base)) for base in plan.bases]
        with tempfile.TemporaryFile() as file:
            context = await anyio.to_thread.run_sync(write_context, plan, file)
            key = key_of(context, bases)
            name = f"{REPOSITORY}:{key[:32]}"
            found = await self._known(name)
            if found is not None:
                return found
            lock = lock_file(facts, key[:32])
            async with self._width, host_lock(lock, what=f"building {build.dockerfile_path}"):
                return await self._known(name) or await self._build(plan, context, file, name, timeout_s)

    async def _known(self, name: str) -> Image | None:
        if self._options.rebuild and name not in self._rebuilt:
            return None
        found = await self._pulls.find(name)
        if found is not None:
            # So that it counts as used now.
            repository, _, tag = name.rpartition(":")
            query = {"repo": repository, "tag": tag}
            path = f"/images/{segment(found.id)}/tag"
            await self._engine.call("POST", path, query=query, doing="name an image", ok=(404, 409, 500))
        return found

    async def _base(self, plan: BuildPlan, base: Base) -> Image:
        try:
            return await self._pulls.get(base.name, platform=base.platform)
        except EnvFailed as error:
            where = f"{plan.build.dockerfile_path}: line {base.line}"
            raise EnvFailed(f"{where}: {error.message}", detail=error.detail, hint=error.hint) from error

    async def _build(
        self, plan: BuildPlan, context: Context, file: IO[bytes], name: str, timeout_s: float | None
    ) -> Image:
        what = f"building {plan.build.dockerfile_path}"
        log = BuildLog(log_path(name))
        began = time.monotonic()
        LOG.info("%s", what)
        try:
            with anyio.fail_after(timeout_s):
                await self._pacing.run(
                    what,
                    lambda: request(
                        self._engine, plan, context, file, name=name, log=log, without_cache=self._options.rebuild
                    ),
                )
        except TimeoutError as error:
            raise _failed(plan, log, f"took more than {timeout_s:g} s", detail="build_timeout") from error
        except EngineError as error:
            if error.detail == "disk_full":
                raise
            if error.status >= 500 and _REGISTRY.search(error.reason) and not log.ran:
                raise HostError(f"{what}: {error.reason}", detail="image_pull") from error
            raise _failed(plan, log, error.reason) from error
        finally:
            log.close()
        self._rebuilt.add(name)
        note = f"docker: built {plan.build.dockerfile_path} in {time.monotonic() - began:.0f} s; {log.place}"
        LOG.info("%s", note)
        image = await self._pulls.find(name, notes=(note,))
        if image is None:
            raise HostError(f"the engine built {name} and does not have it", detail="image_build")
        return image


def log_path(name: str) -> Path:
    """Where the log of the build of an image is kept."""
    return cache_dir() / "docker" / "builds" / f"{name.rpartition(':')[2]}.log"


def _failed(plan: BuildPlan, log: BuildLog, reason: str, *, detail: str = "image_build") -> EnvFailed:
    log.close()
    message = f"the image of {plan.build.dockerfile_path} cannot be built: {reason.strip()}"
    hint = log.place
    if plan.builder == "buildkit" and plan.dockerfile.syntax and _OLD.search(reason):
        newer = f"the Dockerfile asks for {plan.dockerfile.syntax}, and this engine's own BuildKit may be older"
        hint = f"{newer}: use a newer engine; {hint}"
    return EnvFailed(f"{message}\n{log.tail}" if log.tail else message, detail=detail, hint=hint)
