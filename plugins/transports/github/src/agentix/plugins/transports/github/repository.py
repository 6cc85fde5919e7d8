"""The repository that is pushed to, by way of a checkout or of an empty repository of our own."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from agentix.plugins.transports.github.address import is_address
from agentix.plugins.transports.github.checkout import find_checkout
from agentix.plugins.transports.github.git import Git, batch_ssh
from agentix.plugins.transports.github.inputs import GithubInputs

_LEFT = ("repository.git", "objects", "index", "index.lock")


@dataclass(frozen=True, kw_only=True)
class Repository:
    """What to push to, and git with a place for new objects and an index that are nobody else's."""

    git: Git
    address: str
    branch: str | None
    """`None` where the address is to say its default one."""
    own: bool
    """Whether it is our own, which holds nothing yet, so that only the newest commit is fetched into it."""


async def open_repository(inputs: GithubInputs, git: Git, work_dir: Path) -> Repository:
    """Find out where to push to.

    Args:
        inputs: What says so.
        git: How git is called.
        work_dir: Where new objects and an index are put; it holds none.

    Raises:
        ShipRefused: It is no checkout, has no remote, or is on no branch.
    """
    found = await (_by_address if is_address(inputs.repo) else _by_checkout)(inputs, git, work_dir)
    configured = await found.git("config", "core.sshCommand", doing="reading its configuration", fails=True)
    ssh = _ssh(configured.text.strip())
    return Repository(git=found.git.within(ssh), address=found.address, branch=found.branch, own=found.own)


async def _by_address(inputs: GithubInputs, git: Git, work_dir: Path) -> Repository:
    place = work_dir / "repository.git"
    await git("init", "--quiet", "--bare", "--template=", place, doing="making a repository to push from")
    within = git.within({"GIT_DIR": str(place), "GIT_INDEX_FILE": str(work_dir / "index")})
    return Repository(git=within, address=inputs.repo, branch=inputs.branch, own=True)


async def _by_checkout(inputs: GithubInputs, git: Git, work_dir: Path) -> Repository:
    checkout = await anyio.to_thread.run_sync(find_checkout, inputs, git)
    own_objects = work_dir / "objects"
    await anyio.Path(own_objects / "pack").mkdir(parents=True)
    # The checkout keeps its index, its branches and its objects as they are: new ones are put beside it.
    within = git.at(Path(checkout.top)).within(
        {
            "GIT_DIR": checkout.git_dir,
            "GIT_INDEX_FILE": str(work_dir / "index"),
            "GIT_OBJECT_DIRECTORY": str(own_objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(checkout.objects),
        }
    )
    return Repository(git=within, address=checkout.address, branch=checkout.branch, own=False)


def _ssh(configured: str) -> dict[str, str]:
    if os.environ.get("GIT_SSH") and not os.environ.get("GIT_SSH_COMMAND"):
        return {}
    command = batch_ssh(os.environ.get("GIT_SSH_COMMAND") or configured)
    return {} if command is None else {"GIT_SSH_COMMAND": command}


def _quoted(path: str) -> str:
    """As a member of a list of paths that has colons in between."""
    if ":" not in path and not path.startswith('"'):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def clear(work_dir: Path) -> None:
    """Remove everything that `open_repository` and what follows it put there."""
    for name in _LEFT:
        path = work_dir / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
