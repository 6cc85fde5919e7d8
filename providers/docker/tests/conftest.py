"""What every test of the provider `docker` may use: an engine, and images made on the spot."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import tarfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from agentix.api import AgentixError, base_runtime
from agentix.providers.docker import DockerProvider
from agentix.providers.docker.endpoint import find_endpoint
from agentix.providers.docker.engine import Engine

T = TypeVar("T")

APPLETS = (
    *("sh", "cat", "head", "tail", "wc", "id", "readlink", "test", "sleep", "echo", "env", "ls", "mkdir", "rm", "true"),
    *("false", "kill", "touch", "chmod", "stat", "tr", "grep", "seq", "dd", "ps", "cp", "mv", "ln", "uname", "yes"),
)
PASSWD = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000:app:/home/app:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
GROUP = "root:x:0:\napp:x:1000:\nnobody:x:65534:\n"


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@dataclass
class Images:
    """Images with a name that no other run has."""

    prefix: str
    busybox: str = ""
    bash: str = ""
    empty: str = ""
    ids: list[str] = field(default_factory=list)
    """Of all that were imported, also where another one has the name by now."""
    count: int = 0

    def add(self, name: str, files: dict[str, bytes | Path | str], *changes: str) -> str:
        """Import an image from files: bytes, a file to copy, or the target of a link."""
        self.count += 1
        reference = f"{self.prefix}/{name}:{self.count}"
        self.ids += apart(_import, reference, archive(files), changes)
        return reference


def archive(files: dict[str, bytes | Path | str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in ("bin", "etc", "tmp", "home", "home/app"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.mode = 0o755
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                tar.addfile(entry)
                continue
            data = content.read_bytes() if isinstance(content, Path) else content
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


async def _import(reference: str, tar: bytes, changes: Sequence[str]) -> list[str]:
    # Podman heeds no separate tag.
    query = {"fromSrc": "-", "repo": reference}
    if changes:
        query["changes"] = "\n".join(changes)
    engine = open_engine()
    try:
        async with engine.stream("POST", "/images/create", query=query, body=tar, doing="import an image") as pieces:
            said = b"".join([piece async for piece in pieces])
        assert b"error" not in said, said
        return re.findall("sha256:[0-9a-f]{64}", said.decode())
    finally:
        await engine.aclose()


async def _layers(engine: Engine, images: Images) -> list[str]:
    """Images without a name that were built on these: other test runs build on theirs at the same time."""
    listing = (await engine.call("GET", "/images/json", query={"all": "1"}, doing="list images")).json()
    mine, found = {*images.ids}, [*images.ids]
    for _ in listing:
        more = [image for image in listing if image.get("ParentId") in mine and image["Id"] not in mine]
        if not more:
            break
        mine |= {image["Id"] for image in more}
        found += [image["Id"] for image in more if image.get("RepoTags") in (None, [], ["<none>:<none>"])]
    return found


async def _remove(images: Images) -> None:
    engine = open_engine()
    try:
        layers = await _layers(engine, images)
        listing = (await engine.call("GET", "/images/json", doing="list images")).json()
        for tag in (tag for image in listing for tag in image.get("RepoTags") or () if tag.startswith(images.prefix)):
            await engine.call("DELETE", f"/images/{tag}", query={"force": "1"}, doing="remove", ok=(404, 409))
        for layer in reversed(layers):
            # One that has children goes with them.
            await engine.call("DELETE", f"/images/{layer}", doing="remove", ok=(404, 409))
        # The volumes of runtimes that nobody needs any more; the one of now is used by other test runs too.
        query = {"filters": json.dumps({"label": ["agentix.tree"]})}
        now = (await base_runtime()).digest
        for volume in (await engine.call("GET", "/volumes", query=query, doing="list")).json()["Volumes"] or ():
            if volume["Name"].startswith("agentix-runtime-") and volume["Labels"]["agentix.tree"] != now:
                await engine.call("DELETE", f"/volumes/{volume['Name']}", doing="remove", ok=(404, 409))
    finally:
        await engine.aclose()


def apart(function: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """Run in a loop of its own, also where one runs already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: anyio.run(function, *arguments)).result()


def open_engine() -> Engine:
    return Engine(find_endpoint(host=None, context=None))


def missing() -> str | None:
    """What keeps tests with a real engine from running here."""

    async def ask() -> None:
        engine = open_engine()
        try:
            await engine.facts()
        finally:
            await engine.aclose()

    try:
        anyio.run(ask)
    except AgentixError as error:
        return f"no container engine: {error.message}"
    busybox = shutil.which("busybox")
    if busybox is None or b"ld-linux" in Path(busybox).read_bytes()[:4096]:
        return "no static busybox to make images of: install busybox-static"
    return None


MISSING = missing()


@pytest.fixture(scope="session")
def images() -> Iterator[Images]:
    """Images on the real engine, gone at the end."""
    if MISSING is not None:
        pytest.skip(MISSING)
    apart(base_runtime)
    made = Images(f"agentix-test-{uuid.uuid4().hex[:8]}")
    tools: dict[str, bytes | Path | str] = {"bin/busybox": Path(shutil.which("busybox") or "")}
    tools |= {f"bin/{name}": "busybox" for name in APPLETS}
    tools |= {"etc/passwd": PASSWD.encode(), "etc/group": GROUP.encode()}
    made.busybox = made.add("busybox", tools, "ENV FROM_IMAGE=yes", "WORKDIR /work/here")
    made.bash = made.add("bash", {**tools, **_with_libraries("bash")})
    made.empty = made.add("empty", {})
    yield made
    apart(_remove, made)


def _with_libraries(program: str) -> dict[str, bytes | Path | str]:
    path = Path(shutil.which(program) or "").resolve()
    listing = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=True).stdout
    words = [word for line in listing.splitlines() for word in line.split() if word.startswith("/")]
    return {f"bin/{program}": path, **{word.lstrip("/"): Path(word).resolve() for word in words}}


@pytest.fixture
async def provider(images: Images, anyio_backend: str) -> AsyncIterator[DockerProvider]:
    async with DockerProvider() as opened:
        yield opened
        mine = await opened.list({})
        assert [info.id for info in mine if info.id in opened._streams] == [], "a test left a container"


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, for logs; the engine may see it as it sees any directory."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("AGENTIX_CACHE_DIR", str(folder))
    return folder
