from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.errors import EnvFailed, HostError
from agentix.errors.one_line import on_one_line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (HostError("Permission denied", hint="join the group"), "Permission denied; join the group"),
        (EnvFailed("KEY is not set", hint="Set it, or name it."), "KEY is not set. Set it, or name it."),
        (HostError("It ended.", hint="look there"), "It ended. look there"),
        (HostError("a  \n\n  b:\n c"), "a; b: c"),
        (HostError(""), ""),
    ],
)
def test_what_to_do_is_told_apart_from_what_is_wrong(error, line):
    assert on_one_line(str(error)) == line


@given(st.text())
def test_it_is_one_line(text):
    assert len(on_one_line(text).splitlines()) <= 1
