"""Which builder builds what, on a real engine: what was built is read from a container that is never started."""

from __future__ import annotations

import io
import os
import signal
import sys
import tarfile
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentix.api import EnvFailed, ImageBuild
from agentix.providers.docker import DockerConfig, DockerProvider
from agentix.providers.docker.building import log_path
from agentix.providers.docker.engine import Engine
from agentix.providers.docker.image import Image

pytestmark = [pytest.mark.anyio, pytest.mark.real]

MOUNTS = """# syntax=docker/dockerfile:1
ARG WHAT=busybox
FROM --platform=$BUILDPLATFORM {base} AS first
ARG TARGETARCH TARGETPLATFORM BUILDOS
COPY --chmod=751 a.txt /a
RUN --mount=type=bind,source=a.txt,target=/bound --mount=type=cache,target=/c cat /bound > /b
RUN --mount=type=secret,id=none true
RUN <<EOF
echo $TARGETARCH $TARGETPLATFORM $BUILDOS > /arch
stat -c %a /a > /mode
EOF
FROM nosuch.invalid/never/needed:1 AS unused
FROM {base}
COPY --link --from=first /a /b /arch /mode /
"""


def task(folder: Path, dockerfile: str, **files: str) -> ImageBuild:
    (folder / "Dockerfile").write_text(dockerfile)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return ImageBuild(context=folder)


@pytest.fixture
async def made(provider: DockerProvider) -> AsyncIterator[list[Image]]:
    """Images that are removed at the end."""
    found: list[Image] = []
    yield found
    for image in found:
        await provider._engine.call(
            "DELETE", f"/images/{image.id}", query={"force": "1"}, doing="remove", ok=(404, 409)
        )


async def build(provider: DockerProvider, what: ImageBuild, made: list[Image]) -> Image:
    builds = provider._images.builds
    image = await builds.get(what, platform=None, timeout_s=60)
    made.append(image)
    return image


async def content(engine: Engine, image: Image, path: str) -> str:
    """A file of an image."""
    body = {"Image": image.id, "Cmd": ["none"]}
    name = (await engine.call("POST", "/containers/create", body=body, doing="look")).json()["Id"]
    try:
        query = {"path": path}
        archive = (await engine.call("GET", f"/containers/{name}/archive", query=query, doing="look")).body
    finally:
        await engine.call("DELETE", f"/containers/{name}", doing="look")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        file = tar.extractfile(tar.getmembers()[0])
        assert file is not None
        return file.read().decode()


async def test_buildkit_builds_what_only_buildkit_can(
    provider: DockerProvider, images: Any, made: list[Image], tmp_path: Path, cache: Path
) -> None:
    image = await build(provider, task(tmp_path, MOUNTS.format(base=images.busybox), a_txt="alpha\n"), made)
    shown = {name: await content(provider._engine, image, f"/{name}") for name in ("b", "mode", "arch")}
    machine = image.architecture
    assert shown == {"b": "alpha\n", "mode": "751\n", "arch": f"{machine} linux/{machine} linux\n"}
    (note,) = image.notes
    log = await anyio.Path(note.rpartition(" ")[2]).read_text()
    assert "RUN --mount=type=bind" in log and "DONE" in log


async def test_the_classic_builder_knows_the_platform_and_refuses_the_rest(
    images: Any, made: list[Image], tmp_path: Path, cache: Path
) -> None:
    async with DockerProvider(DockerConfig(builder="classic")) as provider:
        text = MOUNTS.format(base=images.busybox)
        with pytest.raises(EnvFailed, match=r"Dockerfile: line 5: COPY --chmod needs BuildKit") as info:
            await build(provider, task(tmp_path, text, a_txt="alpha\n"), made)
        assert info.value.hint
        lines = text.replace("COPY --chmod=751", "COPY").splitlines(keepends=True)
        kept = [line for line in lines if "type=bind" not in line and "never/needed" not in line]
        text = "".join(kept).replace("/a /b ", "/a ")
        image = await build(provider, task(tmp_path, text, a_txt="alpha\n"), made)
        arch = await content(provider._engine, image, "/arch")
        assert arch == f"{image.architecture} linux/{image.architecture} linux\n"
        assert "Step 1/" in await anyio.Path(image.notes[0].rpartition(" ")[2]).read_text()


async def test_a_base_whose_tag_has_moved_means_a_new_build(
    images: Any, made: list[Image], tmp_path: Path, cache: Path
) -> None:
    ids = []
    for text in (b"one", b"two", b"two"):
        images.count = 500
        base = images.add("moving", {"which": text})
        async with DockerProvider() as provider:
            image = await build(provider, task(tmp_path, f"FROM {base}\nCOPY Dockerfile /d\n"), made)
            assert await content(provider._engine, image, "/which") == text.decode()
            ids.append((image.name, bool(image.notes)))
    (first, built), (second, again), (third, _) = ids
    assert first != second and built and again
    # The same content imported twice is another image to the engine.
    assert third != first


async def test_the_same_is_found_again_and_built_again_where_that_is_asked_for(
    images: Any, made: list[Image], tmp_path: Path, cache: Path
) -> None:
    what = task(tmp_path, f"FROM {images.busybox}\nRUN cat /proc/uptime /proc/sys/kernel/random/uuid > /when\n")
    seen = []
    for options in ({}, {}, {"rebuild": True}, {"rebuild": True, "builder": "classic"}):
        async with DockerProvider(DockerConfig(**options)) as provider:
            image = await build(provider, what, made)
            assert (await build(provider, what, made)).id == image.id
            seen.append(await content(provider._engine, image, "/when"))
    assert seen[0] == seen[1]
    assert len(set(seen)) == 3


async def test_a_base_that_is_not_there_is_named_with_its_line(images: Any, tmp_path: Path, cache: Path) -> None:
    what = task(tmp_path, f"FROM {images.busybox} AS one\nFROM {images.prefix}/nosuch:1\nCOPY --from=one /bin /bin\n")
    async with DockerProvider(DockerConfig(pull="never")) as provider:
        with pytest.raises(EnvFailed, match=r"Dockerfile: line 2: the image .*/nosuch:1 .*pull=never"):
            await provider._images.builds.get(what, platform=None, timeout_s=30)


async def test_a_dockerfile_that_copy_must_not_see_is_not_seen(
    provider: DockerProvider, images: Any, made: list[Image], tmp_path: Path, cache: Path
) -> None:
    text = f"FROM {images.busybox}\nCOPY . /c/\nRUN ls -A /c > /seen\n"
    what = task(tmp_path, text, a_txt="a", _dockerignore="Dockerfile\n.dockerignore\n")
    image = await build(provider, what, made)
    assert "Dockerfile" not in await content(provider._engine, image, "/seen")


PROGRAM = """
import sys, anyio, logging
from pathlib import Path
from agentix.api import ImageBuild
from agentix.providers.docker import DockerProvider
logging.basicConfig(level=logging.INFO, format="%(message)s")
async def main():
    async with DockerProvider() as provider:
        image = await provider._images.builds.get(ImageBuild(context=Path(sys.argv[1])), platform=None, timeout_s=60)
        print(image.id, flush=True)
anyio.run(main)
"""


async def test_processes_of_one_machine_build_an_image_once_also_when_one_is_killed(
    provider: DockerProvider, images: Any, made: list[Image], tmp_path: Path, cache: Path, anyio_backend: str
) -> None:
    text = f"FROM {images.busybox}\nRUN cat /proc/sys/kernel/random/uuid > /{uuid.uuid4().hex}; sleep 2\n"
    task(tmp_path, text)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    environ = {**os.environ, "AGENTIX_CACHE_DIR": str(cache)}
    said: list[tuple[str, str]] = []

    async def other() -> None:
        done = await anyio.run_process(command, env=environ, check=True)
        said.append((done.stdout.decode().strip(), done.stderr.decode()))

    async with await anyio.open_process(command, env=environ) as first, anyio.create_task_group() as group:
        assert first.stderr is not None
        heard = b""
        while b"RUN cat" not in heard:
            heard += await first.stderr.receive()
        group.start_soon(other)
        group.start_soon(other)
        first.send_signal(signal.SIGKILL)
    ids = {image for image, _ in said}
    assert len(ids) == 1
    assert sum("docker: built" in log for _, log in said) == 1
    found = await provider._images.pulls.find(ids.pop())
    assert found is not None
    made.append(found)
    assert list((cache / "docker" / "locks").iterdir()) == []


async def test_a_log_is_named_by_its_image(cache: Path) -> None:
    assert log_path("agentix-build:abc") == cache / "docker" / "builds" / "abc.log"
