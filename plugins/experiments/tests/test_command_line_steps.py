from __future__ import annotations

import json

import pytest

from agentix.api import PluginBroken, Scope
from agentix.cli.api import Output, exit_codes
from agentix.cli.app import main
from agentix.plugins.experiments.steps import listing


def test_every_installed_step_is_listed_with_its_lists_and_inputs(capsys):
    assert main("agentix", ["steps"]) == exit_codes.OK
    lines = capsys.readouterr().out.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith("guard ")]
    assert "per_trial per_experiment" in lines[at] and "agentix-rollouts-steps" in lines[at]
    assert lines[at + 2].startswith("    inputs: min_reward ")
    assert {"admission", "check_case", "guard", "report", "rollout"} <= {line.split(" ")[0] for line in lines}


def test_one_step_is_shown_with_the_meaning_of_its_inputs(capsys):
    assert main("agentix", ["steps", "report"]) == exit_codes.OK
    out = capsys.readouterr().out
    assert "report: per_experiment, closes the run (from agentix-rollouts-steps" in out
    assert "pass_at" in out and "Count the trials that have at least this reward." in out


def test_defaults_are_shown_as_a_file_says_them(capsys):
    assert main("agentix", ["steps", "redact"]) == exit_codes.OK
    assert '{"traj": true, "logs": false}' in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["redact"]])
def test_on_a_terminal_lines_are_folded_between_words_and_in_a_pipe_they_are_whole(capsys, monkeypatch, arguments):
    assert main("agentix", ["steps", *arguments]) == exit_codes.OK
    whole = capsys.readouterr().out
    assert max(map(len, whole.splitlines())) > 100
    monkeypatch.setattr(Output, "width", 80)
    assert main("agentix", ["steps", *arguments]) == exit_codes.OK
    folded = capsys.readouterr().out
    assert max(map(len, folded.splitlines())) <= 80
    assert sorted(folded.split()) == sorted(whole.split())


def test_json_has_the_schema_of_the_inputs(capsys):
    assert main("agentix", ["steps", "--scope", "per_case", "--json"]) == exit_codes.OK
    data = {step["name"]: step for step in json.loads(capsys.readouterr().out)}
    assert "guard" not in data
    assert data["admission"]["inputs"]["properties"]["trials"]["default"] == 2
    assert data["admission"]["scopes"] == [Scope.PER_CASE]


@pytest.mark.parametrize(
    ("arguments", "said"), [(["reprot"], "Did you mean 'report'?"), (["--scope", "per_cases"], "no list of steps")]
)
def test_a_wrong_name_is_a_usage_error(capsys, arguments, said):
    assert main("agentix", ["steps", *arguments]) == exit_codes.USAGE
    assert said in capsys.readouterr().err


def test_a_broken_step_is_listed_as_broken_and_stops_nobody(monkeypatch, capsys):
    real = listing.load

    def load(kind, ref, *args, **kwargs):
        if ref.endswith("/guard"):
            raise PluginBroken("guard cannot be imported: no module named x")
        return real(kind, ref, *args, **kwargs)

    monkeypatch.setattr(listing, "load", load)
    assert main("agentix", ["steps"]) == exit_codes.OK
    out = capsys.readouterr().out
    assert "guard cannot be imported" in out and "report" in out


def test_transports_are_steps_with_their_inputs_and_what_is_shipped(depot, capsys):
    assert main("agentix", ["steps", "--json"]) == exit_codes.OK
    data = {step["name"]: step for step in json.loads(capsys.readouterr().out)}
    found = data["ship_my_store"]
    assert (found["plugin"], found["scopes"], found["publishes"]) == (depot, ["per_trial", "per_experiment"], True)
    assert set(found["inputs"]["properties"]) == {"dest", "depth", "tags", "path"}
    assert found["inputs"]["properties"]["dest"]["description"] == "Name of a shelf."
    assert found["inputs"]["required"] == ["dest"]
    assert found["doc"] == "Put it on a shelf."
    assert data["ship_whole"]["scopes"] == ["per_experiment"]
    assert data["ship"]["publishes"] and not data["report"]["publishes"]
    assert "lacks" in data["ship_broken"]["broken"] or "Gone" in data["ship_broken"]["broken"]
    assert "Inputs have a 'path'" in data["ship_with_path"]["broken"]
    assert main("agentix", ["steps", "ship_my_store"]) == exit_codes.OK
    out = capsys.readouterr().out
    assert f"ship_my_store: per_trial, per_experiment, publishes (from {depot})" in out
    assert "What is shipped, in the run's directory" in out


def test_the_schema_of_the_file_has_the_inputs_of_transports(depot, capsys):
    assert main("agentix", ["schema"]) == exit_codes.OK
    definitions = json.loads(capsys.readouterr().out)["$defs"]
    assert set(definitions["ship_my_store.with"]["properties"]) == {"dest", "depth", "tags", "path"}
    assert definitions["ship_my_store.with"]["additionalProperties"] is False
    assert set(definitions["ship.with"]["properties"]) == {"using", "path", "dest", "options"}
    assert {"const": "ship_broken", "description": ""} in definitions["StepSpec"]["properties"]["uses"]["anyOf"]


def test_a_step_of_the_name_of_a_transports_step_is_the_one_that_is_listed(tmp_path, depot, monkeypatch):
    from agentix.registry import snapshot
    from agentix.testing import write_distribution

    write_distribution(
        tmp_path / "site",
        name="lab-own",
        entry_points={"agentix.steps": {"ship_my_store": "agentix.plugins.experiments.steps.shipping:Ship"}},
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    snapshot.cache_clear()
    (found,) = [step for step in listing.installed_steps() if step.name == "ship_my_store"]
    assert found.plugin == "lab-own 1.0"


def test_an_input_is_marked_as_required_where_it_is_and_not_where_that_is_its_value(depot, capsys):
    assert main("agentix", ["steps"]) == exit_codes.OK
    inputs, name = {}, ""
    for line in capsys.readouterr().out.splitlines():
        name = name if line.startswith(" ") else line.split()[0]
        if line.startswith("    inputs"):
            inputs[name] = line.strip()
    assert inputs["ship"] == "inputs (* required): using* path dest options"
    assert "dest*" in inputs["ship_my_store"]
    assert inputs["redact"].startswith("inputs: keys ")
    assert "rollout" not in inputs
