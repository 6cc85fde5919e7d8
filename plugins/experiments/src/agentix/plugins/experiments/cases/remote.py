"""Cases in repositories elsewhere: which repositories have to be fetched, by what, and what is found in them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agentix.plugins.experiments.cases.fetching import CommandFetcher, Fetched, Fetcher, Wanted
from agentix.plugins.experiments.cases.finding import NoCase, find_cases
from agentix.plugins.experiments.cases.git import GitFetcher, ref_problem, repo_problem
from agentix.plugins.experiments.cases.hub import HubFetcher
from agentix.plugins.experiments.cases.local import Located
from agentix.plugins.experiments.commands import Command
from agentix.plugins.experiments.documents import CaseSpec, Submission

_PROGRAMS = {"git": "git", "hf": "hf"}


@dataclass(frozen=True, kw_only=True)
class Group:
    """Entries that one fetch serves."""

    wanted: Wanted
    fetcher: Fetcher
    entries: tuple[int, ...]
    """Their positions in the file."""


class Unfetchable(Exception):
    """An entry cannot be fetched at all: which of its keys is wrong, and why."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def groups(submission: Submission, commands: Mapping[str, Command], entries: Iterable[int]) -> tuple[Group, ...]:
    """Put entries of one repository, ref and way of fetching together, in the order of the file."""
    together: dict[tuple[str, str, str | None, str | None], list[int]] = {}
    for index in entries:
        spec = submission.experiment.cases[index]
        together.setdefault((spec.source, _address(spec, submission.path), spec.ref, spec.fetch), []).append(index)
    return tuple(
        Group(
            wanted=Wanted(
                repo=repo,
                ref=ref,
                paths=_paths(submission.experiment.cases[index].path for index in members),
            ),
            fetcher=_fetcher(submission, commands, source=source, fetch=fetch),
            entries=tuple(members),
        )
        for (source, repo, ref, fetch), members in together.items()
    )


def check_remote(spec: CaseSpec, commands: Mapping[str, Command], path: str | None, *, file: Path) -> None:
    """Refuse what could never be fetched.

    Args:
        spec: An entry with the source `git` or `hf`.
        commands: The configured commands.
        path: What the `PATH` of commands is.
        file: The experiment file, beside which a repository may be.

    Raises:
        Unfetchable: It never could.
    """
    repo = spec.repo or ""
    problem = repo_problem(repo)
    if problem is not None:
        raise Unfetchable("repo", problem)
    if spec.ref is not None and (problem := ref_problem(spec.ref)) is not None:
        raise Unfetchable("ref", problem)
    if spec.path is not None and (
        spec.path.startswith(("/", "~")) or ".." in PurePosixPath(spec.path).parts or "\n" in spec.path
    ):
        raise Unfetchable("path", f"{spec.path!r} is no path in a repository")
    name = f"source_{spec.source}"
    # A command may understand something else by it.
    if spec.source == "git" and spec.fetch is None and name not in commands and _is_path(repo):
        roots = _roots(file)
        if not any((root / Path(repo).expanduser()).exists() for root in roots):
            looked = "" if Path(repo).expanduser().is_absolute() else f" (looked in {' and '.join(map(str, roots))})"
            raise Unfetchable("repo", f"{repo}: there is no such repository{looked}")
    if spec.fetch is None and name not in commands and shutil.which(_PROGRAMS[spec.source], path=path) is None:
        what = "`pip install huggingface_hub` brings it" if spec.source == "hf" else "install it"
        raise Unfetchable(
            "source", f"there is no `{_PROGRAMS[spec.source]}` on the PATH: {what}, or configure the command {name}"
        )


def located(fetched: Fetched, spec: CaseSpec) -> tuple[Located, ...]:
    """The case directories that an entry stands for in its repository.

    Raises:
        NoCase: There is none, or one that cannot be run.
    """
    found = []
    root = fetched.root.resolve()
    for label in find_cases(root, spec.path or "."):
        directory = (root / label).resolve()
        if not directory.is_relative_to(root) or ".git" in directory.relative_to(root).parts:
            raise NoCase(f"{label} leads out of the repository")
        reason = fetched.refused(str(directory.relative_to(root)))
        if reason is not None:
            raise NoCase(reason)
        found.append(Located(label=label, directory=directory))
    return tuple(found)


def repository_name(repo: str) -> str:
    """What a case is called that is a whole repository."""
    return repo.rstrip("/").removesuffix(".git").rstrip("/").replace(":", "/").rpartition("/")[2] or "repository"


def _fetcher(submission: Submission, commands: Mapping[str, Command], *, source: str, fetch: str | None) -> Fetcher:
    command = commands.get(fetch or f"source_{source}")
    if command is not None:
        return CommandFetcher(command=command, source=source)
    kind = HubFetcher if source == "hf" else GitFetcher
    return kind(file=submission.path, timeout_s=submission.commands.timeout)


def _address(spec: CaseSpec, file: Path) -> str:
    """A repository as git is told it: a path is tried in the working directory, then beside the file."""
    repo = spec.repo or ""
    if spec.source == "hf" or "://" in repo:
        return repo
    written = Path(repo).expanduser()
    for root in _roots(file):
        if (root / written).exists():
            return str((root / written).absolute())
    return repo


def _is_path(repo: str) -> bool:
    """Whether git would take it for a path: an address has a protocol, or a colon before the first slash."""
    return ":" not in repo.partition("/")[0]


def _roots(file: Path) -> tuple[Path, ...]:
    """Where a relative path is tried."""
    return tuple(dict.fromkeys((Path.cwd(), file.absolute().parent)))


def _paths(paths: Iterable[str | None]) -> tuple[str, ...]:
    wanted = list(paths)
    return () if None in wanted else tuple(dict.fromkeys(path for path in wanted if path is not None))
