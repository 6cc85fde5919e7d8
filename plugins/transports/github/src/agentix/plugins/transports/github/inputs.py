"""The inputs of the step `ship_github`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from agentix.plugins.transports.github.address import is_address, refuse_address

_BRANCH = re.compile(
    r"(?!-)(?!.*(\.\.|//|@\{|/\.|\.lock(/|$)))[^\x00-\x20~^:?*\[\\\x7f./][^\x00-\x20~^:?*\[\\\x7f]*(?<![./])"
)


class GithubInputs(BaseModel):
    """Where to, and under which message."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dest: str
    """The directory in the repository; what is sent is added to it or replaces files of the same name."""
    repo: str = "."
    """Path of a checkout, whose files, index and branches are left alone, or a repository's address.
    A relative path is tried in the working directory, then beside the experiment file."""
    branch: str | None = None
    """By default the one that the checkout is on, or the default branch of the address; made where there is none."""
    message: str | None = None
    """Of the commit."""
    timeout_s: float = Field(default=1800.0, gt=0, allow_inf_nan=False)
    """Seconds that fetching, and pushing, may take."""

    @field_validator("repo")
    @classmethod
    def _found_and_without_secrets(cls, repo: str, info: ValidationInfo) -> str:
        if not repo or repo.startswith("-"):
            raise ValueError("repo is the path of a checkout or the address of a repository")
        if is_address(repo) and (why := refuse_address(repo, user=False)):
            raise ValueError(why)
        return repo if is_address(repo) else _place(repo, info.context)

    @field_validator("dest")
    @classmethod
    def _inside(cls, dest: str) -> str:
        parts = dest.rstrip("/").split("/")
        if dest.startswith("/") or any(part in ("", ".", "..") for part in parts):
            raise ValueError(f"dest is a directory in the repository, without `.`, `..` and a leading `/`: {dest!r}")
        if any(part.casefold() == ".git" for part in parts):
            raise ValueError(f"dest has a part named .git, which git keeps for itself: {dest!r}")
        if any(ord(char) < 32 for char in dest):
            raise ValueError(f"there may be no control characters in dest: {dest!r}")
        return "/".join(parts)

    @field_validator("branch")
    @classmethod
    def _a_branch(cls, branch: str | None) -> str | None:
        if branch is not None and _BRANCH.fullmatch(branch) is None:
            raise ValueError(f"{branch!r} is no name of a branch")
        return branch

    @field_validator("message")
    @classmethod
    def _says_something(cls, message: str | None) -> str | None:
        if message is not None and not message.strip():
            raise ValueError("an empty message is none; leave it out for the default one")
        return message


def _place(repo: str, context: object) -> str:
    """The path of a checkout: as it is written, or beside the file that names it where only there is such a thing."""
    path = Path(repo).expanduser()
    file = context.get("file") if isinstance(context, Mapping) else None
    if file is not None and not path.exists() and (beside := Path(file).absolute().parent / path).exists():
        return str(beside)
    return str(path)
