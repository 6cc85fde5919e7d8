"""What the remote has now."""

from __future__ import annotations

from dataclasses import dataclass

from agentix.plugins.transports.github.repository import Repository

_HEADS = "refs/heads/"
_FIRST = "main"
"""The branch of a repository that has none."""


@dataclass(frozen=True, kw_only=True)
class Tip:
    """The newest commit that there is to build on."""

    branch: str
    there: bool
    """Whether the branch exists."""
    commit: str | None
    """Of the branch, else of the default branch; `None` in an empty repository."""


async def look(repository: Repository) -> Tip:
    """Ask the remote, and fetch what is not here.

    Raises:
        ShipError: It does not answer, or has no such repository for us.
    """
    git, branch = repository.git, repository.branch
    asked = ("HEAD", _HEADS + (branch or _FIRST))
    doing = f"asking {repository.address} for its branches"
    found = await git("ls-remote", "--symref", "--", repository.address, *asked, doing=doing)
    commits: dict[str, str] = {}
    default = None
    for line in found.text.splitlines():
        value, _, name = line.partition("\t")
        if name == "HEAD" and value.startswith("ref: " + _HEADS):
            default = value.removeprefix("ref: " + _HEADS)
        else:
            commits[name] = value
    branch = branch or default or _FIRST
    own = commits.get(_HEADS + branch) or (commits.get("HEAD") if branch == default else None)
    tip = Tip(branch=branch, there=own is not None, commit=own or commits.get("HEAD"))
    if tip.commit is not None:
        await _fetch(repository, tip.commit)
    return tip


async def _fetch(repository: Repository, commit: str) -> None:
    git = repository.git
    if (await git("cat-file", "-e", f"{commit}^{{tree}}", doing="looking for a commit", fails=True)).ok:
        return
    words = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"]
    if repository.own:
        words += ["--depth=1", "--filter=blob:none"]  # nothing more is needed to put a commit on top
    doing = f"fetching from {repository.address}"
    await git(*words, "--", repository.address, commit, doing=doing, timeout_s=git.timeout_s)
