"""What a step says before anything runs stands with the other problems of the file."""

from __future__ import annotations

import pytest

from agentix.plugins.experiments.documents import ExperimentError

STEP = """
from pydantic import BaseModel, ConfigDict
from agentix.api import Scope, StepOutcome


class Inputs(BaseModel):
    model_config = ConfigDict(extra="forbid")
    program: str = "rocket"
    label: str = ""


class Needs:
    scopes = frozenset({Scope.PER_TRIAL, Scope.PER_EXPERIMENT})
    Inputs = Inputs

    def check(self, inputs, *, agents=(), limits=None):
        if inputs.program != "sh":
            yield f"the program {inputs.program} is not there; install it"
        if agents or limits is not None:
            yield f"agents {[(a.name, a.command) for a in agents]} limits {limits.max_turns}"

    async def run(self, ctx, inputs):
        return StepOutcome()


class Runs(Needs):
    executes = True


step, executor = Needs, Runs
"""


@pytest.fixture
def needs(lab):
    (lab.root / "needs.py").write_text(STEP)
    return f"{lab.root}/needs.py"


def test_a_program_that_is_missing_is_a_problem_of_the_file_with_its_line(lab, needs) -> None:
    file = lab.file(f"""
        matrix: {{agents: [someone, x]}}
        limits: {{max_turns: 3}}
        surplus: 1
        pipeline:
          per_trial:
          - uses: auto
          - {{uses: "{needs}:step", with: {{program: sh, label: "{{{{.TrialID}}}}"}}}}
          - {{uses: "{needs}:step", with: {{label: "{{{{.TrialID}}}}"}}}}
    """)
    lines = file.read_text().splitlines()
    at = next(number for number, line in enumerate(lines, 1) if f'{needs}:step", with: {{label' in line)
    with pytest.raises(ExperimentError) as caught:
        lab.run(file)
    found = {(problem.line, problem.path): problem.message for problem in caught.value.problems}
    assert found[(at, "pipeline.per_trial[2]")] == "the program rocket is not there; install it"
    assert any(path == "surplus" for _, path in found), "one error tells everything"
    assert len(found) == 2
    assert not lab.path().exists()


def test_what_runs_the_trials_is_told_of_agents_and_limits(lab, needs) -> None:
    text = "---\nkind: Commands\nagent_mine: {run: ['true']}\n---\n"
    text += "matrix: {agents: [oracle, {name: mine, id: m}]}\nlimits: {max_turns: 3}\n"
    with pytest.raises(ExperimentError) as caught:
        lab.run(lab.file(text), executor=f"{needs}:executor")
    assert [(problem.path, problem.line) for problem in caught.value.problems] == [("--executor", None)] * 2
    assert "agents [('oracle', None), ('m', 'true')] limits 3" in str(caught.value)
    with pytest.raises(ExperimentError) as caught:
        lab.run(lab.file(f'{text}pipeline: {{per_trial: [{{uses: "{needs}:executor"}}]}}\n'), executor=None)
    assert {problem.path for problem in caught.value.problems} == {"pipeline.per_trial[0]"}
