"""A directory that answers what a sandbox answers, for tests of patches.

It is found because the pytest settings put this folder on the path of modules.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agentix.patch import BaseTree, BlobStore, CapturedPatch, capture_base


def blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def listing(top: bytes, exclude: tuple[str, ...]) -> dict[bytes, Any]:
    if not os.path.isdir(top):
        raise FileNotFoundError(os.fsdecode(top))
    found = {}
    for where, directories, files in os.walk(top):
        links = [name for name in directories if os.path.islink(os.path.join(where, name))]
        directories[:] = [name for name in directories if os.fsdecode(name) not in exclude]
        for name in files + links:
            if os.fsdecode(name) in exclude:
                continue
            place = os.path.join(where, name)
            status = os.lstat(place)
            target, kind, content = b"", "other", b""
            if stat.S_ISLNK(status.st_mode):
                kind, content = "link", os.readlink(place)
                target = content
            elif stat.S_ISREG(status.st_mode):
                kind = "file"
                with open(place, "rb") as source:
                    content = source.read()
            found[os.path.relpath(place, top)] = SimpleNamespace(
                kind=kind, executable=bool(status.st_mode & 0o100), size=len(content), blob=blob(content), target=target
            )
    return found


def copies(top: bytes, into: bytes, members: list[bytes]) -> list[bytes]:
    made = [name for name in members if os.path.lexists(os.path.join(top, name))]
    for name in made:
        target = os.path.join(into, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(os.path.join(top, name), target, follow_symlinks=False)
    return made


def there(path: str) -> bool:
    return os.path.lexists(path)


@dataclass
class Directory:
    """A directory in place of a sandbox."""

    root: Path
    fetched: list[bytes] = field(default_factory=list)
    before_download: Any = None

    async def tree(self, path: str, *, exclude: tuple[str, ...], max_entries: int, max_bytes: int) -> dict[bytes, Any]:
        return listing(os.fsencode(path), exclude)

    async def download(self, path: str, local: Path, *, members: list[bytes], max_bytes: int, max_entries: int) -> Any:
        if self.before_download is not None:
            self.before_download()
        self.fetched += copies(os.fsencode(path), os.fsencode(local), members)
        return SimpleNamespace(refused=())

    async def exists(self, path: str) -> bool:
        return there(path)


def put(root: Path, files: dict[str | bytes, bytes | str]) -> None:
    for name, content in files.items():
        place = os.path.join(os.fsencode(root), os.fsencode(name))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as target:
            target.write(content if isinstance(content, bytes) else content.encode())


def git(root: Path, *args: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *identity, *args], cwd=root, check=True, capture_output=True, text=True).stdout


def shell(work: Path, script: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(work.parent)}
    env |= {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["sh", "-ec", script], cwd=work, check=True, env=env, capture_output=True)


def give_away(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        os.chown(path, 1000, 1000)


def state(root: Path) -> dict[bytes, tuple[bool, bytes]]:
    found = {}
    top = os.fsencode(root)
    for where, directories, files in os.walk(top):
        directories[:] = [name for name in directories if name != b".git"]
        links = [name for name in directories if os.path.islink(os.path.join(where, name))]
        for name in files + links:
            place = os.path.join(where, name)
            if os.path.islink(place):
                found[os.path.relpath(place, top)] = (False, b"-> " + os.readlink(place))
            elif os.path.isfile(place):
                with open(place, "rb") as source:
                    found[os.path.relpath(place, top)] = (os.access(place, os.X_OK), source.read())
    return found


def times(root: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (root, *root.rglob("*"))}


async def record(work: Path, store: BlobStore, **options: Any) -> tuple[Directory, BaseTree, Path]:
    """The base, and a copy of the tree for the patch to be applied to by plain git."""
    clean = work.parent / "clean"
    shutil.copytree(work, clean, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    sandbox = Directory(work)
    base = await capture_base(sandbox, str(work), store=store, **options)  # type: ignore[arg-type]
    return sandbox, base, clean


async def capture(sandbox: Directory, base: BaseTree) -> CapturedPatch:
    return await base.diff(sandbox)  # type: ignore[arg-type]


def applied(patch: CapturedPatch, clean: Path) -> dict[bytes, tuple[bool, bytes]]:
    """What plain git makes of the patch in a directory that is no repository."""
    subprocess.run(
        ["git", "-c", "core.protectNTFS=false", "apply", "--binary"], cwd=clean, input=patch.data, check=True,
        env={"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(clean.parent)}, capture_output=True,
    )  # fmt: skip
    return state(clean)
