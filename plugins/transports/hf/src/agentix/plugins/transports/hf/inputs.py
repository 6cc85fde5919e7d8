"""What the transport is told: where to, and how."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

NO_FOLDERS = (".git", ".cache")
"""Folders in which the hub, or `hf`, takes no files."""
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?")


def _repository(dest: str) -> str:
    owner, slash, name = dest.partition("/")
    if not slash:
        raise ValueError(f"{dest!r} is no repository of the hub; write OWNER/NAME")
    for part in (owner, name):
        if not _NAME.fullmatch(part) or "--" in part or ".." in part:
            raise ValueError(
                f"{dest!r} is no repository of the hub; write OWNER/NAME, each of at most 96 letters, digits, '_', "
                "'-' and '.', without '--' and '..', neither beginning nor ending with '-' or '.'"
            )
    if name.endswith((".git", ".ipynb")):
        raise ValueError(f"{dest!r} is no repository of the hub: its name may not end with .git or .ipynb")
    return dest


def _folder(path: str) -> str:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts or any(part in NO_FOLDERS for part in parts):
        raise ValueError(
            f"{path!r} is no folder of a repository; write one like runs/one, without '..', .git and .cache"
        )
    if not path.isprintable():
        raise ValueError(f"{path!r} holds characters that cannot be seen")
    return "/".join(parts)


def _branch(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_./-]*", name) or ".." in name:
        raise ValueError(f"{name!r} is no branch; write one like main or refs/pr/1")
    return name


class HfInputs(BaseModel):
    """Where on the hub, and how."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dest: Annotated[str, AfterValidator(_repository)]
    """The repository, as `OWNER/NAME`."""
    repo_type: Literal["dataset", "model", "space"] = "dataset"
    """What kind of repository it is."""
    revision: Annotated[str, AfterValidator(_branch)] | None = None
    """The branch, which is made where there is none; by default the repository's `main`."""
    path_in_repo: Annotated[str, AfterValidator(_folder)] | None = None
    """The folder of the repository that it goes into, `.` for its root; a file keeps its name. By default the root per
    experiment, and per trial `EXPERIMENT/RUN/TRIAL` for a directory and `EXPERIMENT/RUN` for a file."""
    private: bool = True
    """Whether only those may see it who may see a private repository: one that is made is private, and one that is
    public is refused."""
    create: bool = True
    """Whether a repository that does not exist is made."""
    message: Annotated[str, Field(min_length=1)] | None = None
    """Of the commit; by default it names the experiment, the run and the trial."""
    timeout_s: Annotated[float, Field(gt=0)] = 3600.0
    """Seconds that one call of `hf`, which makes one commit, may take."""
    max_wait_s: Annotated[float, Field(ge=0)] = 1800.0
    """Seconds to wait in all, where the hub is too busy or asks to come back later."""
