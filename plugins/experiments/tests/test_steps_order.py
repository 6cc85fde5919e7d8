"""Where something is published: what has to come before what, and the redaction that a file forgot."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentix.plugins.experiments.documents import Problem
from agentix.plugins.experiments.steps import Checked, check_file

STEPS = """
from pydantic import BaseModel, ConfigDict
from agentix.api import Scope, StepOutcome


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")
    level: int = 1


class Redacting:
    scopes = frozenset({Scope.PER_TRIAL})
    Inputs = Nothing
    redacts = True

    async def run(self, ctx, inputs):
        return StepOutcome()


class Packing(Redacting):
    scopes = frozenset(Scope)
    redacts = False
    publishes = True


class Looking(Redacting):
    redacts = False
"""

HEAD = "---\nkind: Experiment\nname: e\ncases: [{path: a}]\nmatrix: {agents: [nop]}\n"
COMMANDS = '---\nkind: Commands\nsend: {run: ["true"]}\nship_tape: {run: ["true"]}\n'


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "steps.py").write_text(STEPS)
    monkeypatch.setattr("agentix.plugins.experiments.steps.pipeline.REDACT", "./steps.py:Redacting")

    def checked(pipeline: str) -> Checked:
        file = tmp_path / "e.yaml"
        file.write_text(f"{HEAD}pipeline:\n{pipeline}{COMMANDS}")
        return check_file(file)

    return checked


def uses(name: str, more: str = "") -> str:
    word = name if name in ("rollout", "ship_tape", "ship") else f"./steps.py:{name}"
    return f'    - {{uses: "{word}"{more}}}\n'


SHIP = uses("ship", ", with: {using: send}")
DROP = uses("Looking", ", on_violation: drop")


def lines(problems: tuple[Problem, ...]) -> list[tuple[int | None, str]]:
    return [(problem.line, problem.path) for problem in problems]


def test_a_right_order_has_no_problems_and_no_notice(check):
    found = check(
        "  per_trial:\n" + uses("rollout") + uses("Redacting") + DROP + uses("Packing") + SHIP
        + "  per_experiment:\n" + uses("Packing") + uses("ship_tape")
    )  # fmt: skip
    assert found.problems == ()
    assert found.pipeline.redact is found.pipeline.per_trial[0]
    assert not any("redact" in notice for notice in found.notices)
    assert [(s.publishes, s.ships) for s in found.pipeline.per_trial] == [
        (False, False), (False, False), (True, False), (True, True)
    ]  # fmt: skip


def test_redaction_after_what_publishes_is_a_problem_with_its_line(check):
    for first, label in ((uses("Packing"), "./steps.py:Packing"), (SHIP, "ship"), (uses("ship_tape"), "ship_tape")):
        found = check("  per_trial:\n" + uses("rollout") + first + uses("Redacting"))
        assert lines(found.problems) == [(10, "pipeline.per_trial[2].uses")]
        assert found.problems[0].message == f"has to come before {label}, which publishes what it leaves"


def test_a_second_redaction_is_a_problem(check):
    found = check("  per_trial:\n" + uses("rollout") + uses("Redacting") + uses("Packing") + uses("Redacting"))
    assert lines(found.problems) == [(11, "pipeline.per_trial[3].uses")]
    assert "redacted once, and pipeline.per_trial[1] does that" in found.problems[0].message


def test_what_may_drop_comes_before_what_sends(check):
    found = check("  per_trial:\n" + uses("rollout") + uses("Redacting") + SHIP + DROP)
    assert lines(found.problems) == [(11, "pipeline.per_trial[3].on_violation")]
    assert "what was sent cannot be taken back" in found.problems[0].message
    # What was only packed is taken away again.
    assert check("  per_trial:\n" + uses("rollout") + uses("Redacting") + uses("Packing") + DROP).problems == ()


@pytest.mark.parametrize("more", ["on_failure: warn", "on_failure: skip", "on_violation: warn"])
def test_what_could_not_be_redacted_is_never_published(check, more):
    found = check("  per_trial:\n" + uses("rollout") + uses("Redacting", f", {more}") + uses("Packing"))
    assert lines(found.problems) == [(9, f"pipeline.per_trial[1].{more.split(':')[0]}")]
    assert "never published" in found.problems[0].message
    assert check("  per_trial:\n" + uses("rollout") + uses("Redacting", ", on_violation: drop")).problems == ()


def test_a_step_that_publishes_has_no_place_among_those_of_a_case(check):
    found = check("  per_case:\n" + uses("Packing"))
    assert lines(found.problems) == [(8, "pipeline.per_case[0].uses")]


def test_a_file_that_publishes_per_trial_is_redacted_before_that(check):
    found = check("  per_trial:\n" + uses("rollout") + DROP + uses("Packing") + SHIP)
    assert found.problems == ()
    labels = [step.label for step in found.pipeline.per_trial]
    assert labels == ["./steps.py:Looking", "./steps.py:Redacting", "./steps.py:Packing", "ship"]
    assert found.pipeline.redact is found.pipeline.per_trial[1]
    (notice,) = [notice for notice in found.notices if "redact" in notice]
    assert "redact runs with its defaults, before ./steps.py:Packing" in notice


def test_a_file_that_publishes_at_the_end_is_redacted_after_all_other_steps(check):
    found = check("  per_trial:\n" + uses("rollout") + DROP + "  per_experiment:\n" + uses("ship_tape"))
    assert found.problems == ()
    assert [step.redacts for step in found.pipeline.per_trial] == [False, True]
    assert any("as the last step of each trial" in notice for notice in found.notices)
    empty = check("  per_experiment:\n" + uses("ship_tape"))
    assert [step.redacts for step in empty.pipeline.per_trial] == [True]
    assert empty.pipeline.redact is not None
    assert empty.pipeline.redact in empty.pipeline.steps


def test_a_file_that_publishes_nothing_is_left_alone(check):
    found = check("  per_trial:\n" + uses("rollout") + DROP)
    assert (len(found.pipeline.per_trial), found.pipeline.redact) == (1, None)
    assert found.notices == ()
    alone = check("  per_trial:\n" + uses("rollout") + uses("Redacting"))
    assert alone.pipeline.redact is alone.pipeline.per_trial[0]


def test_the_added_redaction_takes_the_inputs_of_the_whole_pipeline_and_a_key_of_its_own(check):
    found = check("  with: {level: 3}\n  per_experiment:\n" + uses("ship_tape", ", name: Redacting"))
    assert found.problems == ()
    assert found.pipeline.redact is not None
    assert found.pipeline.redact.given == {"level": 3}
    named = check("  per_trial:\n" + uses("rollout") + uses("Packing", ", name: 'steps.py:Redacting'"))
    keys = [step.key for step in named.pipeline.per_trial]
    assert len(set(keys)) == 2


def test_a_step_that_is_wrong_is_told_without_more_about_redaction(check):
    found = check("  per_trial:\n" + uses("rollout") + uses("Redacting", ", with: {levle: 1}") + uses("Packing"))
    assert lines(found.problems) == [(9, "pipeline.per_trial[1].with.levle")]
    assert found.notices == ()


def test_an_input_for_ship_may_stand_for_the_whole_pipeline(check):
    found = check("  with: {using: send, dest: x}\n  per_experiment:\n" + uses("ship"))
    assert found.problems == ()
    assert found.pipeline.per_experiment[0].given == {"dest": "x"}
