"""The repository that is pushed to, by way of a checkout or of an empty repository of our own."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from agentix.api import ShipRefused
from agentix.plugins.transports.github.address import is_address, refuse_address
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
    checkout = await anyio.to_thread.run_sync(Path(inputs.repo).absolute)
    words = ("-C", checkout, "rev-parse", "--path-format=absolute", "--git-dir", "--git-path", "objects")
    found = await git(*words, "--show-toplevel", doing="looking for a checkout", fails=True)
    if not found.ok:
        said = found.error_text.strip()
        raise ShipRefused(
            f"{inputs.repo} is no checkout of a git repository: {said}. "
            "Give the path of one as `repo`, or an address such as https://github.com/OWNER/NAME"
        )
    git_dir, objects, top = found.text.splitlines()
    own_objects = work_dir / "objects"
    await anyio.Path(own_objects / "pack").mkdir(parents=True)
    # The checkout keeps its index, its branches and its objects as they are: new ones are put beside it.
    within = Git(cwd=Path(top), secrets=git.secrets, timeout_s=git.timeout_s).within(
        {
            "GIT_DIR": git_dir,
            "GIT_INDEX_FILE": str(work_dir / "index"),
            "GIT_OBJECT_DIRECTORY": str(own_objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(objects),
        }
    )
    branch = inputs.branch or await _said(within, "symbolic-ref", "--quiet", "--short", "HEAD")
    if not branch:
        raise ShipRefused(f"the checkout {inputs.repo} is on no branch: say which one to push to as `branch`")
    return Repository(git=within, address=await _address(within, branch, inputs.repo), branch=branch, own=False)


async def _address(git: Git, branch: str, checkout: str) -> str:
    names = (await _said(git, "remote")).splitlines()
    wanted = [await _said(git, "config", f"branch.{branch}.{key}") for key in ("pushRemote", "remote")]
    remote = next((name for name in (*wanted, "origin", *names[:1]) if name in names), None)
    if remote is None:
        raise ShipRefused(f"the checkout {checkout} has no remote to push to: `git remote add origin ADDRESS`")
    # As it is written: what `insteadOf` makes of it may have a login in it, and is git's to know.
    said = [await _said(git, "config", "--get-all", f"remote.{remote}.{key}") for key in ("pushurl", "url")]
    address = next((line for lines in said for line in lines.splitlines()), None)
    if address is None:
        raise ShipRefused(f"the remote {remote} of the checkout {checkout} has no address: `git remote -v`")
    if why := refuse_address(address, user=True):
        raise ShipRefused(
            f"the remote {remote} of the checkout {checkout}: {why} (`git remote set-url {remote} ADDRESS`)"
        )
    return address


async def _said(git: Git, *argv: str) -> str:
    result = await git(*argv, doing="reading its configuration", fails=True)
    return result.text.strip() if result.ok else ""


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
