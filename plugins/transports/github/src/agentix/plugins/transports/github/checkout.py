"""What a checkout says of where to push to; all of it stands on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from agentix.api import Secrets, ShipError, ShipRefused
from agentix.plugins.transports.github.address import is_address, refuse_address
from agentix.plugins.transports.github.failures import failure
from agentix.plugins.transports.github.git import Git
from agentix.plugins.transports.github.inputs import GithubInputs


@dataclass(frozen=True, kw_only=True)
class Checkout:
    """Where git keeps it, and where it is pushed to."""

    git_dir: str
    objects: str
    top: str
    address: str
    branch: str


def find_checkout(inputs: GithubInputs, git: Git) -> Checkout:
    """Ask git for it.

    Raises:
        ShipRefused: It is no checkout, has no remote, or is on no branch.
    """
    words = (
        "-C",
        str(Path(inputs.repo).absolute()),
        "rev-parse",
        "--path-format=absolute",
        "--git-dir",
        "--git-path",
        "objects",
        "--show-toplevel",
    )
    found = git.ask(*words)
    if found.exit_code == 127:
        raise failure(found, "looking for a checkout")
    if not found.ok:
        raise ShipRefused(
            f"{inputs.repo} is no checkout of a git repository: {found.error_text.strip()}. "
            "Give the path of one as `repo`, or an address such as https://github.com/OWNER/NAME"
        )
    git_dir, objects, top = found.text.splitlines()
    within = git.at(Path(top))
    branch = inputs.branch or _said(within, "symbolic-ref", "--quiet", "--short", "HEAD")
    if not branch:
        raise ShipRefused(f"the checkout {inputs.repo} is on no branch: say which one to push to as `branch`")
    address = _address(within, branch, inputs.repo)
    return Checkout(git_dir=git_dir, objects=objects, top=top, address=address, branch=branch)


def problems(inputs: GithubInputs) -> Iterator[str]:
    """What can be told without the network: no git, no checkout, no remote, no branch, no identity."""
    if which("git") is None:
        yield "there is no program git on the PATH: install git"
        return
    here = Path(inputs.repo)
    if not is_address(inputs.repo) and not here.is_dir():
        yield f"there is no checkout {inputs.repo}: give the path of one as `repo`, or the address of a repository"
        return
    git = Git(cwd=Path.cwd(), secrets=Secrets())
    if not is_address(inputs.repo):
        try:
            git = git.at(Path(find_checkout(inputs, git).top))
        except ShipError as error:
            yield str(error)
            return
    known = git.ask("var", "GIT_COMMITTER_IDENT")
    if not known.ok:
        yield str(failure(known, "looking for its identity"))


def _address(git: Git, branch: str, checkout: str) -> str:
    names = _said(git, "remote").splitlines()
    wanted = [_said(git, "config", f"branch.{branch}.{key}") for key in ("pushRemote", "remote")]
    remote = next((name for name in (*wanted, "origin", *names[:1]) if name in names), None)
    if remote is None:
        raise ShipRefused(f"the checkout {checkout} has no remote to push to: `git remote add origin ADDRESS`")
    # As it is written: what `insteadOf` makes of it may have a login in it, and is git's to know.
    said = [_said(git, "config", "--get-all", f"remote.{remote}.{key}") for key in ("pushurl", "url")]
    address = next((line for lines in said for line in lines.splitlines()), None)
    if address is None:
        raise ShipRefused(f"the remote {remote} of the checkout {checkout} has no address: `git remote -v`")
    if why := refuse_address(address, user=True):
        raise ShipRefused(
            f"the remote {remote} of the checkout {checkout}: {why} (`git remote set-url {remote} ADDRESS`)"
        )
    return address


def _said(git: Git, *argv: str) -> str:
    result = git.ask(*argv)
    return result.text.strip() if result.ok else ""
