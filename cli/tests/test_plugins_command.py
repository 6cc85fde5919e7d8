"""`agentix plugins` as a user runs it, with distributions that are really on the path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentix.testing import write_distribution

Run = Callable[..., subprocess.CompletedProcess[str]]

STEP = '''
from typing import Literal
from pydantic import BaseModel, ConfigDict, Field
from agentix.api import Scope, StepOutcome

print("printed at import")

class Inputs(BaseModel):
    model_config = ConfigDict(extra=EXTRA)
    text: str = ""

class Config(BaseModel):
    colour: Literal["red", "blue"] = "red"
    names: list[str] = Field(default=[], description="Who is meant.")
    limit: int | None = None
    token: str

class Paint:
    """Paints what it is given.

    Long story.
    """

    Config = Config
    scopes = frozenset({Scope.PER_TRIAL})
    Inputs = Inputs

    def __init__(self, config):
        self.config = config

    async def run(self, ctx, inputs):
        print("printed while it runs")
        return StepOutcome(message=self.config.colour)
'''


@pytest.fixture
def site(tmp_path: Path) -> Path:
    write_distribution(
        tmp_path,
        name="acme-steps",
        version="1.2",
        modules={"acme_steps.py": STEP.replace("EXTRA", repr("forbid")), "acme_bad.py": "import nosuchmod\n"},
        entry_points={
            "agentix.steps": {"paint": "acme_steps:Paint", "bad": "acme_bad:Bad", "nop": "acme_steps:Paint"},
        },
    )
    return tmp_path


@pytest.fixture
def run(site: Path) -> Run:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        env = os.environ | {"PYTHONPATH": str(site)}
        command = [sys.executable, "-c", "import sys, agentix_console; sys.exit(agentix_console.agentix())", "plugins"]
        return subprocess.run([*command, *arguments], env=env, capture_output=True, text=True, cwd=site)

    return run


def test_list_names_every_plugin_and_imports_none(run: Run) -> None:
    done = run("list")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["KIND", "NAME", "DISTRIBUTION", "VERSION", "STATE"]
    assert ["step", "paint", "acme-steps", "1.2", "installed"] in lines
    assert ["step", "bad", "acme-steps", "1.2", "installed"] in lines
    assert "printed at import" not in done.stdout + done.stderr


def test_list_of_one_kind_as_json(run: Run) -> None:
    found = json.loads(run("list", "--kind", "steps", "--json").stdout)
    assert {info["kind"] for info in found} == {"step"}
    theirs = [info for info in found if info["distribution"] == "acme-steps"]
    assert [info["name"] for info in theirs] == ["bad", "nop", "paint"]
    assert theirs[2]["target"] == "acme_steps:Paint"


def test_list_check_says_which_are_broken_and_why(run: Run) -> None:
    done = run("list", "--check", "--json")
    assert done.returncode == 0
    states = {(i["kind"], i["name"]): (i["state"], i["cause"]) for i in json.loads(done.stdout)}
    assert states["step", "paint"] == ("ok", None)
    assert states["step", "bad"] == ("broken", "ModuleNotFoundError: No module named 'nosuchmod'")
    assert states["agent", "nop"] == ("ok", None)


def test_show_tells_what_a_user_needs(run: Run) -> None:
    done = run("show", "paint")
    assert done.returncode == 0
    words = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for expected in (
        "distribution acme-steps 1.2",
        "entry point acme_steps:Paint",
        "state ok",
        "Paints what it is given.",
        "NAME TYPE DEFAULT MEANING",
        "colour red|blue red",
        "names list of string [] Who is meant.",
        "limit integer",
        "token string required",
        "Inputs, in the file of an experiment:",
        "text string",
    ):
        assert expected in words, done.stdout
    assert "printed at import" not in done.stdout


def test_show_schema_and_json_are_json(run: Run) -> None:
    assert "colour" in json.loads(run("show", "paint", "--schema").stdout)["properties"]
    shown = json.loads(run("show", "step:paint", "--json").stdout)
    assert shown["doc"].endswith("Long story.")
    assert json.loads(run("show", "agent:nop", "--schema").stdout)["properties"] == {}


def test_show_of_what_takes_inputs_says_nothing_of_options_that_it_has_not(run: Run) -> None:
    shown = run("show", "transport:hf").stdout
    assert "no options" not in shown and "dest " in shown.partition("Inputs")[2]
    assert json.loads(run("show", "transport:hf", "--json").stdout)["inputs"]["required"] == ["dest"]
    assert "It takes no inputs." in run("show", "step:rollout").stdout
    assert "It takes no options." in run("show", "agent:nop").stdout


def test_show_of_a_command_names_its_help(run: Run) -> None:
    shown = run("show", "cli:run").stdout
    assert "agentix run --help" in shown and "Typer" not in shown


def test_show_of_a_name_that_several_kinds_have_shows_all_of_them(run: Run) -> None:
    done = run("show", "nop")
    assert done.returncode == 0
    assert [line.split() for line in done.stdout.splitlines() if line.startswith("  kind")] == [
        ["kind", "agent"],
        ["kind", "step"],
    ]
    for option in ("--schema", "--json"):
        refused = run("show", "nop", option)
        assert refused.returncode == 2
        assert "say which: agent:nop, step:nop" in refused.stderr


def test_show_of_a_provider_says_what_it_does_not_isolate(run: Run) -> None:
    done = run("show", "provider:local")
    assert done.returncode == 0
    assert "capabilities" in done.stdout
    assert len(done.stdout.partition("Isolation:")[2].split()) > 20


def test_show_of_a_broken_plugin_gives_the_cause(run: Run) -> None:
    done = run("show", "bad")
    assert done.returncode == 1
    assert "broken" in done.stdout
    assert "ModuleNotFoundError: No module named 'nosuchmod'" in done.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("piant", "did you mean 'paint'?"),
        ("tool:nop", "no installed plugin"),
        ("agent:./mine.py", "`agentix plugins check` takes files"),
        ("acme-nope/paint", "no distribution 'acme-nope'"),
    ],
)
def test_an_unclear_name_is_a_usage_error(run: Run, name: str, said: str) -> None:
    done = run("show", name)
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_check_passes_a_good_plugin(run: Run) -> None:
    done = run("check", "paint", "--opt", "token=t", "--inputs", '{"text": "x"}')
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "10 passed, 1 skipped"
    assert "printed" not in done.stdout


def test_check_fails_a_faulty_plugin_unless_waived(run: Run, site: Path) -> None:
    (site / "lenient.py").write_text(STEP.replace("EXTRA", repr("ignore")))
    arguments = ("check", "step:./lenient.py:Paint", "--opt", "token=t")
    done = run(*arguments)
    assert done.returncode == 1
    assert "FAILED        inputs_are_strict" in done.stdout
    waived = run(*arguments, "--waive", "inputs_are_strict=keys are free", "--json")
    assert waived.returncode == 0
    assert {r["name"]: r["outcome"] for r in json.loads(waived.stdout)}["inputs_are_strict"] == "waived"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("paint",), "--opt token: paint (acme-steps 1.2) needs this option"),
        (
            ("paint", "--opt", "tokn=1"),
            "--opt tokn: paint (acme-steps 1.2) has no such option\n  did you mean 'token'?",
        ),
        (("paint", "--opt", "token"), "--opt: 'token' is not KEY=VALUE"),
        (("paint", "--opt", "token=t", "--waive", "inputs_are_strict="), "gives no reason"),
        (("paint", "--opt", "token=t", "--inputs", "{"), "--inputs: is not valid JSON"),
        (("./lenient.py:Paint",), "say of which kind './lenient.py:Paint' is"),
        (("bad",), "bad is provided by acme-steps 1.2 (acme_bad:Bad) but failed to load: ModuleNotFoundError"),
    ],
)
def test_bad_input_to_check_is_one_clear_error(run: Run, arguments: tuple[str, ...], said: str) -> None:
    done = run("check", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_check_runs_an_agent_in_a_sandbox(run: Run, site: Path) -> None:
    (site / "place.py").write_text("from agentix.api import HostProcessProvider as provider\n")
    done = run("check", "agent:nop", "--provider", "./place.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed        solve_can_be_cancelled" in done.stdout


def test_check_tries_a_provider_with_the_sandbox_that_is_described(run: Run) -> None:
    checked = ("check", "provider:inline", "--sandbox-opt")
    assert run(*checked, "imagine=debian:12").returncode == 2
    assert "a sandbox has no 'imagine'" in run(*checked, "imagine=debian:12").stderr
    assert "--sandbox-opt: memory_mb: " in run(*checked, "memory_mb=lots").stderr
    assert "and this is a plugin of the kind agent" in run("check", "agent:nop", "--sandbox-opt", "image=x").stderr
    # It refuses limits, and says so by name: what was described has reached it.
    done = run("check", "provider:inline", "--only", "commands_give_results", "--sandbox-opt", "memory_mb=64")
    assert done.returncode == 1
    assert "memory_mb" in done.stdout
    done = run("check", "provider:inline", "--only", "commands_give_results", "--sandbox-opt", "image=x")
    assert done.returncode == 0, done.stdout + done.stderr
