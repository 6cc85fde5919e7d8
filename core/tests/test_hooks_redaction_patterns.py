"""What plugins want taken out is known for sure, or an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agentix.errors import PluginBroken
from agentix.hooks import Hooks, hookimpl


class Gives:
    def __init__(self, given: Any) -> None:
        self.given = given

    @hookimpl
    def agentix_redaction_patterns(self) -> Mapping[str, str]:
        if isinstance(self.given, BaseException):
            raise self.given
        return self.given  # type: ignore[no-any-return]


def asked(*given: Any) -> dict[str, str]:
    hooks = Hooks()
    for number, one in enumerate(given):
        assert hooks.register(Gives(one), name=f"acme-{number}") == []
    return hooks.redaction_patterns()


def test_the_patterns_of_all_plugins_come_together() -> None:
    assert asked() == {}
    assert asked({"host": r"\w{1,60}\.corp"}, {}, {"ticket": r"OPS-[0-9]+"}) == {
        "host": r"\w{1,60}\.corp",
        "ticket": "OPS-[0-9]+",
    }


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (ValueError("no luck"), r"acme-0 failed: ValueError: no luck"),
        (SystemExit(3), r"acme-0 failed: SystemExit: 3"),
        (None, r"returned NoneType, not a mapping"),
        ("a", r"returned str, not a mapping"),
        ({"host": "("}, r"agentix_redaction_patterns of acme-0: '\(' is no regular expression"),
        ({"host": 7}, r"not int"),
        ({"host": "a*"}, r"matches an empty text"),
        ({"host": "(a+)+b"}, r"takes far too long"),
        ({"The host": "a"}, r"'The host' is no name"),
    ],
)
def test_what_cannot_be_used_is_an_error_and_no_note(given: Any, told: str) -> None:
    with pytest.raises(PluginBroken, match=told):
        asked(given)


def test_a_kind_that_two_plugins_give_is_an_error() -> None:
    with pytest.raises(PluginBroken, match="acme-1 failed: ValueError: another plugin gives the kind 'host' too"):
        asked({"host": "a"}, {"host": "b"})


def test_a_plugin_that_was_left_out_may_have_had_something_to_say() -> None:
    class Odd:
        @hookimpl
        def agentix_run_started(self, no_such_argument: Any) -> None: ...

    hooks = Hooks()
    assert hooks.register(Odd(), name="odd")
    with pytest.raises(PluginBroken, match="is not known: hooks of odd are left out"):
        hooks.redaction_patterns()
    assert hooks.call("agentix_run_finished", summary={}) == []
