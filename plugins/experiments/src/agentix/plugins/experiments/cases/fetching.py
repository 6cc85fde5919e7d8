"""Fetching the repository that cases are in: once, however many cases are wanted of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread

from agentix.plugins.experiments.commands import Command, CommandRunner

_LONGEST_PAUSE_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One repository at one place of its history, and what is wanted of it."""

    repo: str
    """As git, or the hub, is told it."""
    ref: str | None
    paths: tuple[str, ...]
    """Of the wanted cases, patterns among them; empty for the whole repository."""

    @property
    def pin(self) -> dict[str, str]:
        """What is known before it is fetched."""
        return {"repo": self.repo} | ({} if self.ref is None else {"ref": self.ref})


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A repository on this machine."""

    root: Path
    commit: str | None
    """What its ref was resolved to; `None` where that cannot be known."""
    refused: Callable[[str], str | None] = field(default=lambda path: None)
    """Why a directory of it cannot be a case."""


class FetchFailed(Exception):
    """A repository could not be had.

    Args:
        message: Why.
        passing: Whether it may work in a while.
        key: The key of the entry that it is about.
        near: The name that may have been meant.
    """

    def __init__(self, message: str, *, passing: bool = False, key: str = "repo", near: str | None = None) -> None:
        super().__init__(message)
        self.passing = passing
        self.key = key
        self.near = near


class Fetcher(Protocol):
    """Something that fetches a repository to an empty directory."""

    async def fetch(self, wanted: Wanted, root: Path, *, runner: CommandRunner, log: Path) -> Fetched:
        """Fetch it.

        Raises:
            FetchFailed: It did not work.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class CommandFetcher:
    """A configured command that fetches.

    It gets `LOCAL_PATH`, an empty directory that it fills, `CASE_PATHS` (a line for each path that is wanted of the
    repository), and the repository and the ref as `GIT_REPO` and `GIT_REF`, or `HF_REPO` and `HF_REF`.
    """

    command: Command
    source: str

    async def fetch(self, wanted: Wanted, root: Path, *, runner: CommandRunner, log: Path) -> Fetched:
        """Run the command; exit status 75 asks to be tried again later, as does any other failure."""
        prefix = self.source.upper()
        variables = {
            f"{prefix}_REPO": wanted.repo,
            f"{prefix}_REF": wanted.ref or "",
            "LOCAL_PATH": str(root),
            "CASE_PATHS": "\n".join(wanted.paths),
        }
        result = await runner.run(self.command, variables=variables, log=log)
        if not result.ok:
            raise FetchFailed(result.describe(), passing=True, key="fetch")
        return Fetched(root=root, commit=await anyio.to_thread.run_sync(_head, root))


async def fetch(
    fetcher: Fetcher, wanted: Wanted, work: Path, *, runner: CommandRunner, max_attempts: int, pause_s: float
) -> Fetched:
    """Fetch a repository, and try again where that may help.

    Args:
        fetcher: How.
        wanted: What.
        work: A directory of its own.
        runner: Runs what fetches.
        max_attempts: How often to try.
        pause_s: Seconds before the second try; before every further one twice as long.

    Raises:
        FetchFailed: The last try did not work either.
    """
    root = work / "root"
    for attempt in range(1, max_attempts + 1):
        await anyio.to_thread.run_sync(_empty, root)
        try:
            return await fetcher.fetch(wanted, root, runner=runner, log=work / f"{attempt}.log")
        except FetchFailed as error:
            if not error.passing or attempt == max_attempts:
                tried = f" (tried {attempt} times)" if attempt > 1 else ""
                raise FetchFailed(f"{error}{tried}", key=error.key, near=error.near) from error
        await anyio.sleep(min(pause_s * 2 ** (attempt - 1), _LONGEST_PAUSE_S))
    raise AssertionError("max_attempts is at least 1")


def last_line(text: str) -> str:
    """What a program said at the end."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it said nothing")


def says(text: str, phrases: Sequence[str]) -> bool:
    """Whether a program's words hold one of some phrases."""
    lowered = text.lower()
    return any(phrase in lowered for phrase in phrases)


def _empty(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)


def _head(root: Path) -> str | None:
    """The commit that a work tree is at, read without running anything in what a stranger has laid out."""
    git = root / ".git"
    try:
        head = (git / "HEAD").read_text(encoding="ascii").strip()
        if head.startswith("ref: "):
            name = head.removeprefix("ref: ")
            loose = git / name
            if loose.is_file():
                head = loose.read_text(encoding="ascii").strip()
            else:
                packed = (git / "packed-refs").read_text(encoding="ascii").splitlines()
                head = next((line.split()[0] for line in packed if line.endswith(f" {name}")), "")
    except (OSError, UnicodeDecodeError):
        return None
    return head if len(head) in (40, 64) and set(head) <= set("0123456789abcdef") else None
