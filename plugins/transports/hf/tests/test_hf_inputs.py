"""What the transport takes as its inputs, and what it says of the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agentix.plugins.transports.hf import HfInputs


@pytest.mark.parametrize("dest", ["org/name", "a/b", "My_Org/data.set-1", "x" * 96 + "/" + "y" * 96])
def test_a_repository_is_an_owner_and_a_name(dest: str) -> None:
    assert HfInputs(dest=dest).dest == dest


@pytest.mark.parametrize(
    "dest",
    [
        *("name", "", "/name", "org/", "a/b/c", "datasets/org/name", "hf://datasets/org/name", "-o/name", "o/-name"),
        *(
            "or--g/name",
            "org/na..me",
            "org/name.git",
            "org/n ame",
            "org/ñ",
            "org/.x",
            "org/x.",
            "x" * 97 + "/n",
            "o/n\n",
        ),
    ],
)
def test_what_is_no_repository_is_refused_before_anything_runs(dest: str) -> None:
    with pytest.raises(ValidationError, match=r"OWNER/NAME|may not end with"):
        HfInputs(dest=dest)


@pytest.mark.parametrize(
    ("given_path", "taken"), [(".", ""), ("", ""), ("a/b/", "a/b"), ("./a//b", "a/b"), ("-x", "-x")]
)
def test_a_folder_of_the_repository_is_put_in_order(given_path: str, taken: str) -> None:
    assert HfInputs(dest="o/n", path_in_repo=given_path).path_in_repo == taken


@pytest.mark.parametrize("path", ["/a", "..", "a/../b", ".git", "a/.git/x", ".cache/x", "a\nb"])
def test_a_folder_that_the_hub_does_not_take_is_refused(path: str) -> None:
    with pytest.raises(ValidationError, match=r"folder of a repository|cannot be seen"):
        HfInputs(dest="o/n", path_in_repo=path)


@pytest.mark.parametrize("revision", ["-x", "a b", "a..b", "", "$(x)"])
def test_what_is_no_branch_is_refused(revision: str) -> None:
    with pytest.raises(ValidationError, match="is no branch"):
        HfInputs(dest="o/n", revision=revision)


@given(st.text(max_size=40))
def test_a_folder_never_leads_out_of_the_repository_and_is_never_an_option(path: str) -> None:
    try:
        taken = HfInputs(dest="o/n", path_in_repo=path).path_in_repo
    except ValidationError:
        return
    assert taken is not None
    assert not {"..", ".", ".git"} & set(taken.split("/"))
    assert not taken.startswith("/")
    assert taken.isprintable()
