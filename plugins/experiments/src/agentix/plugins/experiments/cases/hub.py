"""Datasets of the Hugging Face hub, by its own command line."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from agentix.api import HUB_ENV, HUB_SETTINGS
from agentix.plugins.experiments.cases.fetching import Fetched, FetchFailed, Wanted, last_line, says
from agentix.plugins.experiments.cases.finding import literal_prefix
from agentix.plugins.experiments.commands import Command, CommandRunner

_SEEN = (*HUB_ENV, "HF_HUB_OFFLINE")  # what was downloaded once can be had without the hub
_NO_REVISION = ("revisionnotfound", "revision not found", "invalid rev id")
_FINAL = (
    *("repositorynotfound", "repository not found", "repo not found", "gatedrepo", "gated", "401 client error"),
    *("403 client error", "404 client error", "invalid username or password", "no such option", "repo id must"),
    *("access to dataset", "not found"),
)
_BOOKS = Path(".cache", "huggingface")


@dataclass(frozen=True, kw_only=True)
class HubFetcher:
    """Fetches with the `hf` of this machine."""

    file: Path
    """The experiment file."""
    timeout_s: float

    async def fetch(self, wanted: Wanted, root: Path, *, runner: CommandRunner, log: Path) -> Fetched:
        """Download the wanted directories of a dataset repository."""
        argv = ["hf", "download", wanted.repo, "--repo-type", "dataset", "--local-dir", str(root)]
        argv += [] if wanted.ref is None else ["--revision", wanted.ref]
        prefixes = {literal_prefix(path) for path in wanted.paths} or {""}
        if "" not in prefixes:
            argv += [part for prefix in sorted(prefixes) for part in ("--include", f"{prefix}/*")]
        command = Command(
            name="hf", form="run", argv=tuple(argv), env=_SEEN, timeout_s=self.timeout_s, origin=self.file
        )
        result = await runner.run(command, variables=HUB_SETTINGS, log=log)
        said = result.stderr + result.stdout
        if not result.ok:
            if says(said, _NO_REVISION):
                raise FetchFailed(f"the dataset {wanted.repo} has no revision {wanted.ref!r}", key="ref")
            reason = f"took longer than {result.limit_s:g} s" if result.timed_out else last_line(said)
            raise FetchFailed(f"the dataset {wanted.repo}: {reason}", passing=not says(said, _FINAL))
        return Fetched(root=root, commit=await anyio.to_thread.run_sync(_settle, root))


def _settle(root: Path) -> str | None:
    """The commit that was downloaded, as `hf` notes it; its notes are no part of the dataset."""
    commits = set()
    for note in (root / _BOOKS / "download").rglob("*.metadata"):
        with note.open(encoding="utf-8", errors="replace") as lines:
            commits.add(lines.readline().strip())
    shutil.rmtree(root / _BOOKS, ignore_errors=True)
    if (root / ".cache").is_dir() and not any((root / ".cache").iterdir()):
        (root / ".cache").rmdir()
    return commits.pop() if len(commits) == 1 else None
