"""Addresses without the logins in them."""

from __future__ import annotations

import pytest

from agentix.api import without_logins


@pytest.mark.parametrize(
    ("given", "clean"),
    [
        ("https://me:pw@host/x?u=a@b", "https://host/x?u=a@b"),
        ("ssh://git@host/x", "ssh://host/x"),
        ("https://me:p@ss@host", "https://host"),
        ("git@host:org/repo", "git@host:org/repo"),
        (
            "git@host:org/repo and https://a:b@c, http://d:e@f:8080/g",
            "git@host:org/repo and https://c, http://f:8080/g",
        ),
        ("remote:path and https://host", "remote:path and https://host"),
        (b"proxy http://me:p@ss@proxy:3128: \xff", b"proxy http://proxy:3128: \xff"),
        ({"a": ["s3://k:v@b", 3]}, {"a": ["s3://b", 3]}),
        (None, None),
    ],
)
def test_logins_are_taken_out_of_addresses(given: object, clean: object) -> None:
    assert without_logins(given) == clean
