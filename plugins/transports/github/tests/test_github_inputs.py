"""Addresses, directories and branches that may be given."""

from __future__ import annotations

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
