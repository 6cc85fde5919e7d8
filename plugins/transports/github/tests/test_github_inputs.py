"""Addresses, directories and branches that may be given."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from agentix.plugins.transports.github import GithubInputs


@pytest.mark.parametrize(
    ("repo", "words"),
    [
        ("https://me:opensesame@example.com/x.git", "login in it"),
        ("https://ghp_opensesame@github.com/x/y", "login in it"),
        ("https://me@example.com/x.git", "login in it"),
        ("ssh://git:opensesame@example.com/x.git", "login in it"),
        ("ext::sh -c touch% /tmp/x", "of this kind"),
        ("ext::https://x/y", "of this kind"),
        ("ftp://example.com/x", "of this kind"),
        ("--upload-pack=x", "path of a checkout"),
        ("", "path of a checkout"),
    ],
)
def test_addresses_with_a_login_or_a_command_are_refused(repo: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        GithubInputs(dest="x", repo=repo)


@pytest.mark.parametrize(
    "dest", ["", "/", "/etc", ".", "a/../b", "a//b", "..", ".git/hooks", "a/.GIT", "a\nb", "a/./b"]
)
def test_dest_is_a_directory_inside(dest: str) -> None:
    with pytest.raises(ValidationError, match="dest"):
        GithubInputs(dest=dest)


@pytest.mark.parametrize(
    "branch", ["", "-d", "a..b", "a b", "a~1", "x:y", "a.lock", "/a", "a/", "a.", "@{u}a@{", "a//b"]
)
def test_a_branch_has_a_name_of_one(branch: str) -> None:
    with pytest.raises(ValidationError, match="name of a branch"):
        GithubInputs(dest="x", branch=branch)


@pytest.mark.parametrize("branch", ["main", "runs/r1", "r-1.2_x", "ü"])
def test_ordinary_branches_are_taken(branch: str) -> None:
    assert GithubInputs(dest="a/b/", branch=branch).branch == branch
    assert GithubInputs(dest="a/b/").dest == "a/b"


def test_a_checkout_is_in_the_working_directory_or_beside_the_file(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "beside/co").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    context = {"file": tmp_path / "beside/e.yaml"}

    def repo(text: str, context: object = context) -> str:
        return GithubInputs.model_validate({"dest": "x", "repo": text}, context=context).repo

    assert repo("co") == str(tmp_path / "beside/co")
    assert (repo("co", None), repo("nowhere"), repo("."), repo("git@example.org:co")) == (
        "co",
        "nowhere",
        ".",
        "git@example.org:co",
    )
    (tmp_path / "here/co").mkdir()
    assert repo("co") == "co"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert repo("~/here") == str(tmp_path / "here")
