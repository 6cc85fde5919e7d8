"""Options as users type them, against a plugin's `Config`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from agentix.errors import ConfigError
from agentix.registry import options_schema, parse_pairs
from agentix.registry.options import configure


class Config(BaseModel):
    model_config = ConfigDict(extra="forbid")

    path: Path = Path("x")
    timeout_s: float | None = 10.0
    network: Literal["none", "public"] | None = None
    count: int = 1
    verbose: bool = False
    names: list[str] = []
    ports: tuple[int, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    title: str | None = None
    anything: Any = None


class Strict(BaseModel):
    needed: str
    other: int = 0

    @model_validator(mode="after")
    def _together(self) -> Strict:
        if self.other > 5 and self.needed == "small":
            raise ValueError("small needs other up to 5")
        return self


def config(options: dict[str, object], where: str = "--agent") -> Any:
    return configure(Config, options, label="mine (acme 1.0)", where=where)


@pytest.mark.parametrize(
    ("option", "given", "value"),
    [
        ("path", "/a/b", Path("/a/b")),
        ("timeout_s", "2.5", 2.5),
        ("timeout_s", "none", None),
        ("network", "none", "none"),
        ("count", "12", 12),
        ("verbose", "yes", True),
        ("verbose", "0", False),
        ("names", "a, b", ["a", "b"]),
        ("names", "", []),
        ("names", ["a,b", "c"], ["a,b", "c"]),
        ("names", ["a,b"], ["a", "b"]),
        ("names", '["a,b"]', ["a,b"]),
        ("names", ("x",), ["x"]),
        ("ports", "80,443", (80, 443)),
        ("ports", ["80", "443"], (80, 443)),
        ("env", '{"A": "1"}', {"A": "1"}),
        ("env", {"A": "1"}, {"A": "1"}),
        ("title", "none", "none"),
        ("title", "a,b", "a,b"),
        ("anything", ["x", "y"], ["x", "y"]),
    ],
)
def test_a_string_is_read_as_the_type_of_its_field(option: str, given: object, value: object) -> None:
    assert getattr(config({option: given}), option) == value


def test_a_hyphen_stands_for_an_underscore() -> None:
    assert config({"timeout-s": "3"}).timeout_s == 3.0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"timout": "5"}, "--agent-opt timout: mine (acme 1.0) has no such option\n  did you mean 'timeout_s'?"),
        ({"zzz": "5"}, "--agent-opt zzz: mine (acme 1.0) has no such option\n  its options: path, timeout_s"),
        ({"count": "many"}, "--agent-opt count: Input should be a valid integer"),
        ({"count": ["1", "2"]}, "--agent-opt count: is given 2 times and takes one value"),
        ({"network": "fast"}, "--agent-opt network: Input should be 'none' or 'public'"),
        ({"env": "A=1"}, "--agent-opt env: is not valid JSON"),
        ({"env": '{"A": 1}'}, "--agent-opt env.A: Input should be a valid string"),
        ({"ports": "80,web"}, "--agent-opt ports.1: Input should be a valid integer"),
        ({"timeout_s": "1", "timeout-s": "2"}, "--agent-opt timeout-s: is given twice"),
    ],
)
def test_an_error_names_the_path_that_the_user_typed(options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        config(options)
    assert str(error.value).startswith(said)


def test_a_path_in_a_file_is_named_with_dots() -> None:
    with pytest.raises(ConfigError, match=r"^agents\[0\]\.options\.timout: "):
        config({"timout": 5}, where="agents[0].options")


def test_an_unknown_option_is_refused_even_by_a_model_that_ignores_extras() -> None:
    with pytest.raises(ConfigError, match=r"^x\.ohter: .*\n  did you mean 'other'"):
        configure(Strict, {"needed": "a", "ohter": 1}, label="strict", where="x")


def test_a_missing_option_says_how_to_give_it() -> None:
    with pytest.raises(ConfigError) as error:
        configure(Strict, {}, label="strict", where="--agent")
    assert str(error.value) == "--agent-opt needed: strict needs this option\n  --agent-opt needed=VALUE"


def test_options_that_do_not_go_together_are_an_error_about_the_plugin() -> None:
    with pytest.raises(ConfigError, match=r"^--agent: the options of strict cannot be used: .*small needs"):
        configure(Strict, {"needed": "small", "other": "6"}, label="strict", where="--agent")


class Worded(BaseModel):
    some: Annotated[list[str], Field(min_length=1)] = ["a"]
    even: int = 0

    @field_validator("even")
    @classmethod
    def _is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError(f"{value} is odd")
        return value


@pytest.mark.parametrize(
    ("options", "said"),
    [({"some": ""}, "some: needs at least 1 value(s), not 0"), ({"even": "3"}, "even: 3 is odd")],
)
def test_what_is_wrong_is_said_in_plain_words(options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        configure(Worded, options, label="worded", where="--agent")
    assert str(error.value) == f"--agent-opt {said}"


def test_pairs_keep_every_equals_sign_but_the_first_and_gather_repeats() -> None:
    assert parse_pairs(["a=1=2", "b=", "a=3"], where="--opt") == {"a": ["1=2", "3"], "b": ""}


@pytest.mark.parametrize("pair", ["", "a", "=1", " =1"])
def test_a_pair_without_key_or_equals_is_refused(pair: str) -> None:
    with pytest.raises(ConfigError, match=r"^--opt: .* is not KEY=VALUE"):
        parse_pairs([pair], where="--opt")


@given(st.dictionaries(st.sampled_from([*Config.model_fields, "nope"]), st.text() | st.lists(st.text(), max_size=3)))
def test_no_text_makes_it_fail_otherwise(options: dict[str, object]) -> None:
    try:
        config(options)
    except ConfigError as exc:
        assert str(exc).startswith("--agent-opt ")


class Inner(BaseModel):
    width: int = 1
    """How wide."""


class Outer(BaseModel):
    inputs: dict[str, Any] = Field(default_factory=dict, validation_alias="with")
    """Given as `with`."""
    inner: list[Inner] | None = None


def test_the_schema_describes_nested_options_and_those_that_have_another_name_outside() -> None:
    schema = options_schema(Outer)
    assert schema["properties"]["with"]["description"] == "Given as `with`."
    assert schema["$defs"]["Inner"]["properties"]["width"]["description"] == "How wide."
