"""What is known before anything runs: whether there is a checkout that can be pushed from, and where that goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentix.api import ShipRefused, StepContext
from agentix.plugins.transports.github import Github

Make = Callable[..., StepContext]
Run = Callable[..., str]


def told(**inputs: Any) -> list[str]:
    return list(Github().check(Github.Inputs.model_validate({"dest": "jobs/x", **inputs})))


def test_a_checkout_that_can_be_pushed_from_has_nothing_wrong_and_is_not_touched(checkout: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in checkout.rglob("*")}
    assert told(repo=str(checkout)) == []
    assert told(repo=str(checkout), branch="new/one") == []
    assert before == {path: path.stat().st_mtime_ns for path in checkout.rglob("*")}


def test_an_address_is_not_asked(tmp_path: Path) -> None:
    assert told(repo="https://127.0.0.1:9/nobody/nothing") == []


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (None, "no checkout of a git repository.*Give the path of one"),
        (("remote", "remove", "origin"), "has no remote to push to"),
        (("checkout", "-q", "--detach"), "is on no branch"),
        (("remote", "set-url", "origin", "https://me:hunter22@example.com/x"), "has a login in it"),
    ],
)
def test_what_is_wrong_with_a_checkout_is_told(
    checkout: Path, tmp_path: Path, git: Run, spoil: tuple[str, ...] | None, words: str, context: Make
) -> None:
    place = tmp_path / "plain" if spoil is None else checkout
    place.mkdir(exist_ok=True)
    if spoil is not None:
        git(*spoil, cwd=place)
    (problem,) = told(repo=str(place))
    with pytest.raises(ShipRefused, match=words) as caught:
        Github().destination(tmp_path, Github.Inputs(dest="x", repo=str(place)), context())
    assert str(caught.value) == problem
    assert "hunter22" not in problem


def test_that_nobody_is_known_who_commits_is_told(checkout: Path, machine: Path) -> None:
    (machine / ".gitconfig").write_text("")
    (problem,) = told(repo=str(checkout))
    assert "git config --global user.name" in problem


@pytest.mark.parametrize(
    ("address", "inputs", "where"),
    [
        ("git@github.com:org/name.git", {}, "https://github.com/org/name/tree/main/jobs/x"),
        ("ssh://host/x.git", {"branch": "runs"}, "ssh://host/x.git runs:jobs/x"),
    ],
)
def test_a_checkout_tells_the_repository_the_branch_and_the_directory(
    checkout: Path, git: Run, context: Make, address: str, inputs: dict[str, str], where: str
) -> None:
    git("remote", "set-url", "origin", address, cwd=checkout)
    given = Github.Inputs.model_validate({"dest": "jobs/x", "repo": str(checkout), **inputs})
    assert Github().destination(checkout, given, context()) == where


def test_of_an_address_the_default_branch_is_not_known(context: Make, tmp_path: Path) -> None:
    given = Github.Inputs(dest="jobs", repo="https://github.com/org/name")
    assert Github().destination(tmp_path, given, context()) == "https://github.com/org/name (its default branch):jobs"
