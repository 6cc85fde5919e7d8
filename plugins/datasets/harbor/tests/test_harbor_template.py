from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.api import EnvFailed
from agentix.plugins.datasets.harbor.template import partial_templates, resolve_env


@pytest.mark.parametrize(
    ("value", "resolved"),
    [
        ("${TOKEN}", "secret"),
        ("${TOKEN:-other}", "secret"),
        ("${EMPTY:-other}", ""),
        ("${UNSET:-other}", "other"),
        ("${UNSET:-}", ""),
        ("${UNSET:-${TOKEN}}", "${TOKEN}"),
        ("plain", "plain"),
        ("$TOKEN", "$TOKEN"),
        ("http://${TOKEN}/", "http://${TOKEN}/"),
    ],
)
def test_a_value_is_replaced_as_a_whole(value: str, resolved: str) -> None:
    assert resolve_env({"A": value}, where="t", host={"TOKEN": "secret", "EMPTY": ""}) == {"A": resolved}


def test_a_missing_variable_is_named_with_its_key() -> None:
    with pytest.raises(EnvFailed) as caught:
        resolve_env({"KEY": "${NO_SUCH}", "B": "${NOR_THIS}"}, where="task.toml: environment.env", host={})
    assert "environment.env.KEY needs the variable NO_SUCH" in str(caught.value)
    assert "environment.env.B needs the variable NOR_THIS" in str(caught.value)
    assert caught.value.detail == "missing_variable"


def test_the_host_is_this_process_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARBOR_TEST_VALUE", "7")
    assert resolve_env({"A": "${HARBOR_TEST_VALUE}"}, where="t") == {"A": "7"}


@given(st.text().filter(lambda text: not text.startswith("${")))
def test_any_other_text_stays_as_it_is(text: str) -> None:
    assert resolve_env({"A": text}, where="t", host={}) == {"A": text}


def test_templates_inside_other_text_are_found() -> None:
    assert partial_templates({"A": "x${B}", "B": "${B}", "C": "x", "D": "${B:-c}"}) == ["A"]
