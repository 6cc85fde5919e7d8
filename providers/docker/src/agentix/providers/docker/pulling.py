"""Gets images from registries: by policy, once for all who wait, at the pace that the registry allows."""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from agentix.api import EnvFailed, HostError
from agentix.providers.docker.engine import Engine, EngineError, segment
from agentix.providers.docker.flight import Flights
from agentix.providers.docker.image import Image, matches, read_image
from agentix.providers.docker.progress import Layers, messages

if TYPE_CHECKING:
    from agentix.providers.docker.config import DockerConfig
    from agentix.providers.docker.pacing import Pacing

_LOG = logging.getLogger("agentix.providers.docker")
_DENIED = re.compile(r"unauthorized|denied|authentication required|no basic auth|forbidden", re.IGNORECASE)
_MISSING = re.compile(r"not found|manifest unknown|name unknown|no matching manifest|invalid reference", re.IGNORECASE)


class Pulls:
    """The images that are given by name.

    Args:
        engine: The engine.
        options: The provider's options.
        pacing: The clock of all registries.
    """

    def __init__(self, engine: Engine, options: DockerConfig, pacing: Pacing) -> None:
        self._engine = engine
        self._options = options
        self._pacing = pacing
        self._found: Flights[Image] = Flights()
        self._width = anyio.CapacityLimiter(options.pulls)

    async def get(self, name: str, *, platform: str | None) -> Image:
        """The image, pulled where the policy says so.

        Raises:
            EnvFailed: There is no such image, it may not be pulled, or needs a login.
            HostError: The engine or the registry failed.
        """
        key = f"{platform or ''}\0{name}"
        return await self._found.get(key, lambda: self._get(name, platform))

    def forget(self, image: Image) -> None:
        """Look for it again: the engine has lost it."""
        self._found.forget(lambda found: found.id == image.id)

    async def find(self, name: str, *, notes: tuple[str, ...] = ()) -> Image | None:
        """The image, if the engine has it."""
        answer = await self._engine.call("GET", f"/images/{segment(name)}/json", doing="inspect the image", ok=(404,))
        return None if answer.status == 404 else read_image(name, answer.json(), notes=notes)

    async def _get(self, name: str, platform: str | None) -> Image:
        if not name or name.startswith("-") or re.search(r"\s", name):
            raise EnvFailed(f"{name!r} is no name of an image", detail="image_pull")
        policy = self._options.pull
        found = None
        if policy != "always":
            found = await self.find(name)
            if found is not None and (platform is None or matches(found, platform)):
                return found
            if policy == "never":
                state = "is for another platform" if found else "is not there"
                raise EnvFailed(
                    f"the image {name} {state}, and pull=never forbids to pull it",
                    detail="image_pull",
                    hint="pull or build it before, or use `--provider-opt pull=missing`",
                )
        limit = self._options.pull_timeout_s
        try:
            with anyio.fail_after(limit):
                async with self._width:
                    began = time.monotonic()
                    size = await self._pacing.run(f"pulling {name}", lambda: self._pull(name, platform))
        except TimeoutError as error:
            raise HostError(
                f"pulling the image {name} took more than {limit:g} s",
                detail="image_pull",
                hint="pull it before the run, or raise `--provider-opt pull_timeout_s=`",
            ) from error
        except EngineError as error:
            raise _explained(name, error, other=found) from error
        note = f"docker: pulled {name}: {size / 1e6:.0f} MB in {time.monotonic() - began:.0f} s"
        _LOG.info("%s", note)
        image = await self.find(name, notes=(note,))
        if image is None:
            raise HostError(f"the engine pulled the image {name} and does not have it", detail="image_pull")
        return image

    async def _pull(self, name: str, platform: str | None) -> int:
        _LOG.info("pulling %s", name)
        repository, tag = split_reference(name)
        query = {"fromImage": repository, "tag": tag, **({"platform": platform} if platform else {})}
        login = await anyio.to_thread.run_sync(_login_for, name)
        headers = {"X-Registry-Auth": login} if login else {}
        layers = Layers(f"pulling {name}")
        doing = f"pull the image {name}"
        async with self._engine.stream("POST", "/images/create", query=query, headers=headers, doing=doing) as pieces:
            async for message in messages(pieces, doing=doing):
                layers.add(message)
        return layers.bytes


def split_reference(name: str) -> tuple[str, str]:
    """Repository and tag or digest of an image's name; without a tag the engine would pull every one."""
    repository, at, digest = name.partition("@")
    if at:
        return repository, digest
    head, colon, tag = name.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (name, "latest")


def _login_for(name: str) -> str | None:
    """The header with what `docker login` has stored for the image's registry, credential helpers included."""
    from docker.auth import encode_header, load_config, resolve_repository_name  # type: ignore[import-untyped]
    from docker.errors import DockerException  # type: ignore[import-untyped]

    try:
        registry, _ = resolve_repository_name(split_reference(name)[0])
        login = load_config().resolve_authconfig(registry)
    except (DockerException, OSError, ValueError) as error:
        _LOG.warning("the stored logins cannot be read, so %s is pulled without one: %s", name, error)
        return None
    return encode_header(login).decode("ascii") if login else None


def _explained(name: str, error: EngineError, *, other: Image | None) -> HostError | EnvFailed:
    if error.detail == "disk_full":
        return error
    # Who has built an image for one platform would else look for what is wrong with a registry.
    here = f" (the engine has it for {other.platform})" if other is not None else ""
    message = f"the image {name} cannot be pulled{here}: {error.reason}"
    if _DENIED.search(error.reason) or error.status in (401, 403):
        hint = "it does not exist, or needs `docker login` to its registry as the user who runs agentix"
        return EnvFailed(message, detail="image_pull", hint=hint)
    if _MISSING.search(error.reason) or error.status in (400, 404):
        hint = "look for a typing error in its name or tag, and whether it exists for this platform"
        return EnvFailed(message, detail="image_pull", hint=hint)
    return HostError(message, detail="image_pull")
