"""Steps and transports of other distributions: broken ones, loud ones, and those that have a name twice."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentix.registry import snapshot
from agentix.testing import write_distribution

GOOD = """
from pydantic import BaseModel
from agentix.api import Receipt, Scope, StepOutcome

class Inputs(BaseModel):
    dest: str = "x"

class Nowhere:
    scopes = frozenset({Scope.PER_EXPERIMENT})
    Inputs = Inputs
    host_env = ()

    async def ship(self, source, inputs, ctx):
        return Receipt(destination="nowhere", files=1, bytes=1)

class Silent:
    scopes = frozenset({Scope.PER_TRIAL, Scope.PER_EXPERIMENT})
    Inputs = Inputs

    async def run(self, ctx, inputs):
        return StepOutcome(message="a stranger was here")
"""
BROKEN = {"imp": "import nosuchmod\n", "leaves": "raise SystemExit(3)\n", "loud": f"print('LOUD')\n{GOOD}"}
SHIP = "pipeline: {{per_experiment: [{{uses: {}, with: {{dest: x}}}}]}}\n"


@pytest.fixture
def strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    site = tmp_path / "site"
    modules = {"stranger_good.py": GOOD} | {f"stranger_{name}.py": text for name, text in BROKEN.items()}
    transports = {name: f"stranger_{name}:Nowhere" for name in BROKEN} | dict.fromkeys(
        ("twin", "hf"), "stranger_good:Nowhere"
    )
    steps = dict.fromkeys(("report", "redact"), "stranger_good:Silent")
    steps |= {f"step-{name}": f"stranger_{name}:Silent" for name in BROKEN}
    entries = {"agentix.transports": transports, "agentix.steps": steps}
    write_distribution(site, name="one", modules=modules, entry_points=entries)
    write_distribution(site, name="two", entry_points={"agentix.transports": {"twin": "stranger_good:Nowhere"}})
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    snapshot.cache_clear()
    yield site
    snapshot.cache_clear()
    for name in [name for name in sys.modules if name.startswith("stranger_")]:
        del sys.modules[name]


def test_a_run_has_the_report_and_the_redaction_of_ours_whoever_has_their_names_too(lab, strangers) -> None:
    assert lab.run(lab.file(SHIP.format("one/ship_twin") + "matrix: {agents: [someone]}\n")) == 0
    assert "# lab · r" in (lab.path() / "report.md").read_text()
    assert (lab.path() / ".staging/trials/a-someone-1/trial.json").is_file()
    used = {step["label"]: step["uses"] for step in lab.manifest()["steps"]}
    assert used["redact"] == "agentix-rollouts-steps/redact"


@pytest.mark.parametrize(
    ("uses", "said"),
    [
        ("ship_twin", "pick one: one/ship_twin, two/ship_twin"),
        ("ship_hf", "pick one: agentix-rollouts-hf/ship_hf, one/ship_hf"),
        ("report", "pick one: agentix-rollouts-steps/report, one/report"),
        ("ship_imp", "the transport imp is provided by one 1.0 (stranger_imp:Nowhere) but failed to load: Module"),
        ("ship_leaves", "failed to load: SystemExit: 3"),
        ("step-imp", "the step step-imp is provided by one 1.0 (stranger_imp:Silent) but failed to load: Module"),
        ("step-leaves", "failed to load: SystemExit: 3"),
    ],
)
def test_one_that_is_not_clear_or_broken_is_an_error_only_where_it_is_asked_for(
    lab, strangers, capfd, uses: str, said: str
) -> None:
    done = lab.cli("run", str(lab.file(SHIP.format(uses) + "matrix: {agents: [nop]}\n")), "--id", "r")
    assert done.returncode == 2
    assert said in done.stderr
    assert not (lab.root / "runs").exists() or not lab.ran


@pytest.mark.parametrize("uses", ["one/ship_twin", "two/ship_twin", "agentix-rollouts-steps/report"])
def test_the_picks_that_are_offered_are_taken(lab, strangers, uses: str) -> None:
    file = lab.file(
        f"pipeline: {{per_experiment: [{{uses: {uses}, with: {{dest: x.md}}}}]}}\nmatrix: {{agents: [nop]}}\n"
    )
    assert lab.run(file, dry_run=True) == 0


def test_what_one_prints_as_it_is_loaded_is_not_in_the_output_of_ours(lab, strangers) -> None:
    done = lab.cli("steps", "--json")
    assert done.returncode == 0
    assert "LOUD" not in done.stdout and "LOUD" in done.stderr
    assert '"ship_loud"' in done.stdout and '"ship_rclone"' in done.stdout
