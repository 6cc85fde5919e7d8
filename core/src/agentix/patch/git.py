"""The host's git, in a repository of its own where nobody's configuration counts."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio import to_thread

from agentix.errors import PatchError
from agentix.patch.objects import ObjectDir
from agentix.patch.store import BlobStore

_TOLD = 2000


class GitFailed(PatchError):
    """Git ended with an exit code that is an error."""


class Scratch:
    """A bare repository that lives for one capture. It reads the blob store and writes beside it."""

    def __init__(self, path: Path, store: BlobStore) -> None:
        self.path = path
        self.store = store
        self.objects = ObjectDir(path / "objects")
        self.files = path / "files"
        self.work_tree = path / "tree"
        self.index = path / "index"
        self.patch = path / "patch"

    async def git(
        self, *args: str, ok: Sequence[int] = (0,), stdin: bytes | None = None, work_tree: bool = False
    ) -> tuple[bytes, str]:
        """Run git and return its standard output and what it said on the other one.

        Args:
            args: The command and its arguments.
            ok: Exit codes that are no error.
            stdin: What it reads; nothing by default.
            work_tree: Whether `self.work_tree` is the working tree; else there is none.

        Raises:
            GitFailed: Git failed; the message holds its exit code and what it said.
            PatchError: Git is missing.
        """
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.path),
            "LC_ALL": "C",
            "GIT_DIR": str(self.store.git_dir),
            "GIT_OBJECT_DIRECTORY": str(self.objects.path),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(self.store.objects.path),
            "GIT_INDEX_FILE": str(self.index),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_TERMINAL_PROMPT": "0",
        }
        bare: tuple[str, ...] = ()
        if work_tree:
            env["GIT_WORK_TREE"] = str(self.work_tree)
            bare = ("-c", "core.bare=false")
        try:
            done = await anyio.run_process(
                ["git", *bare, *args],
                input=stdin,
                check=False,
                env=env,
                cwd=self.work_tree if work_tree else self.path,
                start_new_session=True,  # Ctrl-C in a terminal is not for it
            )
        except FileNotFoundError as error:
            if shutil.which("git") is None:
                raise PatchError(
                    "git is not installed on this machine, so no patch can be made", hint="install git"
                ) from error
            raise
        said = done.stderr.decode("utf-8", "replace").strip()
        if done.returncode not in ok:
            told = "\n".join(line for line in said.splitlines() if not line.startswith("Checking patch "))
            raise GitFailed(f"git {args[0]} failed with exit code {done.returncode}: {told[:_TOLD]}")
        return done.stdout, said


@asynccontextmanager
async def scratch(store: BlobStore) -> AsyncIterator[Scratch]:
    """A fresh repository on top of the store; it is gone afterwards."""
    made = await to_thread.run_sync(_make, store)
    try:
        yield made
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(lambda: shutil.rmtree(made.path, ignore_errors=True))


def _make(store: BlobStore) -> Scratch:
    store.open()
    made = Scratch(Path(tempfile.mkdtemp(prefix="capture-", dir=store.scratch)), store)
    made.objects.path.mkdir()  # without it git sees no repository
    return made


def _quoted(path: Path) -> str:
    """A path in the list of alternates, where a colon would end it."""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
