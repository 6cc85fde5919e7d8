"""What is known of the cases of a file before anything is fetched or run."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from pathlib import PurePosixPath

from agentix.api import Case
from agentix.plugins.experiments.cases.entries import DEFAULT_DATASET, Entries, find_here, may_be_fetched, tell_apart
from agentix.plugins.experiments.cases.remote import repository_name
from agentix.plugins.experiments.commands import commands_of
from agentix.plugins.experiments.documents import CaseSpec, Problem, Submission


@dataclass(frozen=True, kw_only=True)
class Foreseen:
    """Cases, of which only names and labels are sure."""

    cases: tuple[Case, ...]
    problems: tuple[Problem, ...]


def foresee(submission: Submission) -> Foreseen:
    """Find what can be found without fetching anything and without asking a dataset.

    Args:
        submission: The file; also one of which only a part is right.
    """
    state, cases = Entries(submission), list[Case]()
    commands, path = commands_of(submission), os.environ.get("PATH")
    for entry, spec in enumerate(submission.experiment.cases):
        if spec.source == "local" and spec.path:
            find_here(state, entry)
        elif spec.source in ("git", "hf") and spec.repo and may_be_fetched(state, entry, commands, path):
            cases += _named(spec)
    found = [one for entry in sorted(state.found) for one in state.found[entry]]
    tell_apart(found)
    return Foreseen(cases=(*(one.case for one in found), *cases), problems=tuple(state.problems))


def _named(spec: CaseSpec) -> list[Case]:
    """The case that an entry of a repository stands for, where it names one."""
    if spec.path is not None and glob.has_magic(spec.path):
        return []
    label = spec.path or "."
    name = spec.id or PurePosixPath(label).name or repository_name(spec.repo or "")
    pin = {"repo": spec.repo or "", **({} if spec.ref is None else {"ref": spec.ref})}
    dataset = spec.dataset or DEFAULT_DATASET
    return [Case(name=name, label=label, source=spec.source, dataset=dataset, instance={"instance_id": name}, pin=pin)]
