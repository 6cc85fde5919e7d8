from __future__ import annotations

import json

import pytest

from agentix.api import PluginBroken, Scope
from agentix.cli.api import exit_codes
from agentix.cli.app import main
from agentix.plugins.experiments.steps import listing


def test_every_installed_step_is_listed_with_its_lists_and_inputs(capsys):
    assert main("agentix", ["steps"]) == exit_codes.OK
    lines = capsys.readouterr().out.splitlines()
    (guard,) = [line for line in lines if line.startswith("guard ")]
    assert "per_trial per_experiment" in guard and "agentix-rollouts-steps" in guard and "min_reward" in guard
    assert {"admission", "check_case", "guard", "report", "rollout"} <= {line.split(" ")[0] for line in lines}


def test_one_step_is_shown_with_the_meaning_of_its_inputs(capsys):
    assert main("agentix", ["steps", "report"]) == exit_codes.OK
    out = capsys.readouterr().out
    assert "report: per_experiment, closes the run (from agentix-rollouts-steps" in out
    assert "pass_at" in out and "Count the trials that have at least this reward." in out


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
