"""Gets the runtime and a bundle into containers: bound from here, or from volumes that are filled once."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import tarfile
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import anyio
import anyio.to_thread

from agentix.api import EnvFailed, HostError, RuntimeMount, SandboxConfig, Unsupported
from agentix.providers.docker.container import RUNTIME
from agentix.providers.docker.endpoint import Endpoint
from agentix.providers.docker.engine import Engine, EngineError, segment
from agentix.providers.docker.flight import Flights
from agentix.providers.docker.host_lock import host_lock, lock_file
from agentix.providers.docker.http import FileBody

_LOG = logging.getLogger("agentix.providers.docker")
_SHOWN = ("bind source path does not exist", "no such file or directory", "invalid mount config", "statfs")
_PLACE = "/agentix/tree"
BUNDLE = "/agentix/bundle"
LABEL, HOLDER = "agentix.tree", "agentix.tree.holder"
"""Labels of the volumes: the digest of what one holds; on one that is nothing but a mark, the name of that volume."""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A directory of this machine that a container is to have, read-only."""

    what: str
    path: Path
    digest: str
    target: str

    @property
    def volume(self) -> str:
        """The name of the volume that says where the tree is."""
        return f"agentix-{self.what}-{self.digest.removeprefix('sha256:')[:24]}"


def trees_of(config: SandboxConfig, runtime: RuntimeMount) -> tuple[SandboxConfig, tuple[Tree, ...]]:
    """The trees of a sandbox, and the config without them."""
    trees = [Tree(what="runtime", path=runtime.path, digest=runtime.digest, target=RUNTIME)]
    others = []
    for mount in config.mounts:
        if mount.target == BUNDLE and config.bundle is not None:
            trees.append(Tree(what="bundle", path=mount.source, digest=config.bundle, target=mount.target))
        else:
            others.append(mount)
    return config.model_copy(update={"mounts": tuple(others)}), tuple(trees)


def check_mounts(config: SandboxConfig, runtime: RuntimeMount, *, endpoint: Endpoint) -> None:
    """Refuse directories of this machine that a container cannot have.

    Raises:
        Unsupported: The engine is on another machine.
        EnvFailed: There is no such file.
    """
    for mount in trees_of(config, runtime)[0].mounts:
        if not endpoint.is_local:
            raise Unsupported(
                f"the engine at {endpoint.url} is on another machine and cannot honour mounts: {mount.source}",
                hint="copy what it holds into the image, or upload it when the sandbox runs",
            )
        if not mount.source.exists():
            raise EnvFailed(f"the mount of {mount.source} cannot be made: there is no such file", detail="mount")


def bound(tree: Tree) -> dict[str, Any]:
    """The mount of a directory of this machine."""
    return {"Type": "bind", "Source": str(tree.path), "Target": tree.target, "ReadOnly": True}


def is_unseen(error: EngineError, trees: Sequence[Tree]) -> bool:
    """Whether the engine refused a container because it does not see the directory of a tree."""
    reason = error.reason.lower()
    named = any(str(tree.path).lower() in reason for tree in trees)
    return named and any(words in reason for words in _SHOWN)


class Volumes:
    """The volumes that hold a tree each, on an engine that does not see this machine's directories.

    A volume is filled under a name that nobody else knows, read back, and only then named by the labels of a second,
    empty volume, which the engine makes once: what is half filled is never used, and of several processes or machines
    that fill at the same time one wins.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._filled: Flights[str] = Flights()

    async def get(self, tree: Tree, *, image: str) -> dict[str, Any]:
        """The mount of a filled volume.

        Args:
            tree: What it holds.
            image: Any image: a container of it, which is never started, is needed to get at the volume.

        Raises:
            HostError: It cannot be filled.
        """
        holder = await self._filled.get(tree.volume, lambda: self._get(tree, image))
        return _mount(holder, tree.target, read_only=True)

    def forget(self) -> None:
        """Look for all again: somebody may have removed them."""
        self._filled.forget(lambda _: True)

    async def _get(self, tree: Tree, image: str) -> str:
        name = await self._known(tree)
        if name is not None:
            return name
        lock = lock_file(await self._engine.facts(), tree.volume)
        async with host_lock(lock, what=f"copying the {tree.what} to the engine"):
            return await self._known(tree) or await self._fill(tree, image)

    async def _known(self, tree: Tree) -> str | None:
        mark = await self._inspect(tree.volume)
        if mark is None:
            return None
        holder = str((mark.get("Labels") or {}).get(HOLDER, ""))
        found = await self._inspect(holder) if holder else None
        # An engine makes an empty volume where a container asks for one that is gone.
        if found is not None and (found.get("Labels") or {}).get(LABEL) == tree.digest:
            return holder
        await self._remove(tree.volume)
        return None

    async def _fill(self, tree: Tree, image: str) -> str:
        _LOG.info("copying the %s to the engine, once", tree.what)
        name = f"{tree.volume}-{secrets.token_hex(6)}"
        await self._create(name, {LABEL: tree.digest})
        try:
            async with self._carrier(name, image) as path:
                with tempfile.TemporaryFile() as file:
                    sent = await anyio.to_thread.run_sync(_pack, file, tree.path)
                    await self._put(path, file)
                with tempfile.TemporaryFile() as file:
                    await self._read_back(path, file)
                    if await anyio.to_thread.run_sync(_listing, file) != sent:
                        raise HostError(f"the engine has not kept the {tree.what} as it was sent", detail="engine")
            await self._create(tree.volume, {LABEL: tree.digest, HOLDER: name})
            winner = await self._known(tree)
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(HostError):
                await self._remove(name)
            raise
        if winner != name:
            await self._remove(name)
        if winner is None:
            raise HostError(f"the volume of the {tree.what} was removed while it was made", detail="engine")
        return winner

    async def _put(self, path: str, file: IO[bytes]) -> None:
        async with self._engine.stream(
            "PUT",
            f"{path}/archive",
            query={"path": _PLACE},
            headers={"Content-Type": "application/x-tar"},
            body=FileBody(file),
            doing="fill a volume",
        ) as answer:
            async for _ in answer:
                pass

    async def _read_back(self, path: str, file: IO[bytes]) -> None:
        query = {"path": f"{_PLACE}/."}
        async with self._engine.stream("GET", f"{path}/archive", query=query, doing="read a volume") as pieces:
            async for piece in pieces:
                file.write(piece)
        file.seek(0)

    async def _inspect(self, name: str) -> dict[str, Any] | None:
        answer = await self._engine.call("GET", f"/volumes/{segment(name)}", doing="inspect a volume", ok=(404,))
        return None if answer.status == 404 else dict(answer.json())

    async def _create(self, name: str, labels: dict[str, str]) -> None:
        body = {"Name": name, "Labels": labels}
        await self._engine.call("POST", "/volumes/create", body=body, doing="create a volume")

    async def _remove(self, name: str) -> None:
        await self._engine.call("DELETE", f"/volumes/{segment(name)}", doing="remove a volume", ok=(404, 409))

    @asynccontextmanager
    async def _carrier(self, name: str, image: str) -> AsyncIterator[str]:
        path = f"/containers/agentix-fill-{secrets.token_hex(6)}"
        body = {
            "Image": image,
            "Entrypoint": ["/agentix"],
            "NetworkDisabled": True,
            "Labels": {LABEL: name},
            "HostConfig": {"Mounts": [_mount(name, _PLACE, read_only=False)]},
        }
        query = {"name": path.rpartition("/")[2]}
        try:
            await self._engine.call("POST", "/containers/create", query=query, body=body, doing="create a container")
            yield path
        finally:
            with anyio.CancelScope(shield=True):
                await self._engine.call("DELETE", path, query={"force": "1"}, doing="remove it", ok=(404, 409))


def _mount(volume: str, target: str, *, read_only: bool) -> dict[str, Any]:
    options = {"NoCopy": True}
    return {"Type": "volume", "Source": volume, "Target": target, "ReadOnly": read_only, "VolumeOptions": options}


def _pack(file: IO[bytes], path: Path) -> str:
    def owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = int(entry.mtime)
        return entry

    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.add(path, arcname=".", filter=owned_by_root)
    file.seek(0)
    sent = _listing(file)
    file.seek(0)
    return sent


def _listing(file: IO[bytes]) -> str:
    """Digest of names, modes and contents in an archive, whatever their order."""
    found: list[tuple[str, ...]] = []
    first: dict[str, tuple[str, ...]] = {}
    with tarfile.open(fileobj=file, mode="r") as tar:
        for entry in tar:
            name = entry.name.removeprefix("./").rstrip("/")
            if name in ("", "."):
                continue
            if entry.islnk():
                # Which of the names of a file comes first is up to who packs.
                content = first[entry.linkname.removeprefix("./")]
            elif entry.isreg():
                content = ("file", _digest(tar, entry), oct(entry.mode & 0o7777))
                first[name] = content
            elif entry.issym():
                content = ("link", entry.linkname)
            else:
                content = ("other", str(entry.type), oct(entry.mode & 0o7777))
            found.append((name, *content))
    return hashlib.sha256(json.dumps(sorted(found)).encode("utf-8", "surrogateescape")).hexdigest()


def _digest(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> str:
    source = tar.extractfile(entry)
    if source is None:
        return ""
    return hashlib.file_digest(source, "sha256").hexdigest()  # type: ignore[arg-type]
