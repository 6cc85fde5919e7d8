"""What a manifest keeps of the options that a user gave."""

from __future__ import annotations

import json

import pytest

from agentix.records import Manifest, PluginUse

SECRET = "sk-CANARY"


def manifest(options: dict[str, object]) -> Manifest:
    return Manifest(run_id="r", dataset=PluginUse.of("d"), agent=PluginUse.of("a", options), provider=PluginUse.of("p"))


@pytest.mark.parametrize(
    "option",
    [
        ("api_key", SECRET),
        ("api-key", SECRET),
        ("env", {"OPENAI_API_KEY": SECRET}),
        ("env", json.dumps({"OPENAI_API_KEY": SECRET})),
        ("env", f' {{"A": "b", "TOKEN": "{SECRET}"}}'),
        ("servers", [{"name": "x", "headers": {"token": SECRET}}]),
        ("servers", json.dumps([{"headers": {"password": SECRET}}])),
    ],
)
def test_a_secret_is_not_kept_however_deep_it_is_and_its_change_is_seen(option: tuple[str, object]) -> None:
    key, value = option
    first = manifest({key: value})
    assert SECRET not in first.to_bytes().decode()
    changed = json.loads(json.dumps(value).replace(SECRET, "sk-OTHER"))
    assert any(line.startswith(f"agent option {key}: ") for line in first.changes(manifest({key: changed})))
    assert first.changes(manifest({key: value})) == []


@pytest.mark.parametrize("value", ["{not json", "[" * 100_000, {"HOME": "/x"}, '{"HOME": "/x"}', ["a", "b"], 3])
def test_what_is_no_secret_is_kept_as_it_is(value: object) -> None:
    assert manifest({"option": value}).agent.options == {"option": value}
