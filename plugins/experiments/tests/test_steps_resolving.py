from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from agentix.api import Scope
from agentix.plugins.experiments.commands import Command
from agentix.plugins.experiments.documents import Pipeline, StepSpec
from agentix.plugins.experiments.steps import StepRefused, resolve_pipeline, resolve_step


def command(name: str, *argv: str) -> Command:
    return Command(name=name, form="run", argv=argv or ("true",), origin=Path("file.yaml"))


def spec(uses: str, given=None, **values) -> StepSpec:
    return StepSpec.model_validate({"uses": uses, "with": given or {}, **values})


def made(data) -> Pipeline:
    return Pipeline.model_validate_json(json.dumps(data))


def problems(step: StepSpec, scope: Scope, **commands) -> dict[str, str]:
    with pytest.raises(StepRefused) as caught:
        resolve_step(step, scope, commands, path="p[0]")
    return {p.path.removeprefix("p[0]."): f"{p.message} ~{p.near}" for p in caught.value.problems}


def test_an_installed_step_wins_over_a_command_of_its_name():
    resolved = resolve_step(spec("guard", {"min_reward": 1}), Scope.PER_TRIAL, {"guard": command("guard")})
    assert resolved.kind == "plugin" and resolved.plugin.startswith("guard (agentix-rollouts-steps")


def test_a_command_is_the_fallback():
    resolved = resolve_step(spec("notify", {"to": "me"}), Scope.PER_EXPERIMENT, {"notify": command("notify")})
    assert (resolved.kind, resolved.plugin, resolved.executes) == ("command", "the command notify", False)
    assert resolved.given == {"to": "me"}


def test_the_first_trial_step_is_the_executor_where_a_command_has_its_name():
    pipeline = made({"per_trial": [{"uses": "harbor"}, {"uses": "guard", "with": {"min_reward": 1}}]})
    resolved = resolve_pipeline(pipeline, commands={"harbor": command("harbor")})
    assert resolved.problems == () and resolved.executor is not None
    assert resolved.executor.kind == "command" and [s.label for s in resolved.per_trial] == ["guard"]


def test_an_installed_step_that_does_not_execute_is_no_executor_whatever_commands_there_are():
    pipeline = made({"per_trial": [{"uses": "guard", "with": {"min_reward": 1}}]})
    resolved = resolve_pipeline(pipeline, commands={"guard": command("guard")})
    assert resolved.executor is None and [s.kind for s in resolved.per_trial] == ["plugin"]


def test_a_step_of_a_file_is_found_by_its_path(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from pydantic import BaseModel\n"
        "from agentix.api import Scope, StepOutcome\n"
        "class Step:\n"
        "    scopes = frozenset({Scope.PER_CASE})\n"
        "    class Inputs(BaseModel, extra='forbid'):\n"
        "        depth: int = 1\n"
        "    async def run(self, ctx, inputs):\n"
        "        return StepOutcome(message=str(inputs.depth))\n"
        "step = Step()\n"
    )
    resolved = resolve_step(spec(str(file), {"depth": 2}), Scope.PER_CASE, {})
    assert resolved.kind == "plugin"
    before = resolved.fingerprint()
    file.write_text(file.read_text() + "# edited\n")
    sys.modules.pop(type(resolved.step).__module__, None)
    assert before != resolve_step(spec(str(file), {"depth": 2}), Scope.PER_CASE, {}).fingerprint()


@pytest.mark.parametrize(
    ("step", "scope", "path", "said"),
    [
        (spec("guardd"), Scope.PER_TRIAL, "uses", "neither an installed step nor a configured command ~guard"),
        (spec("admission"), Scope.PER_TRIAL, "uses", "works per_case, not per_trial"),
        (spec("report", {"pass_att": 1}), Scope.PER_EXPERIMENT, "with.pass_att", "no such input"),
        (spec("report", {"pass_att": 1}), Scope.PER_EXPERIMENT, "with.pass_att", "~pass_at"),
        (spec("report", {"pass_att": 1}), Scope.PER_EXPERIMENT, "with.pass_att", "no such input ~"),
        (spec("report", {"colour": 1}), Scope.PER_EXPERIMENT, "with.colour", "the inputs here are dest, format"),
        (spec("report", {"format": "pdf"}), Scope.PER_EXPERIMENT, "with.format", 'csv or html, not the text "pdf"'),
        (spec("report", {"format": "htm"}), Scope.PER_EXPERIMENT, "with.format", "~html"),
        (spec("archive", {"format": "tgz"}), Scope.PER_TRIAL, "with.format", "tar, tar.gz, tar.zst or zip, not the"),
        (spec("guard", {"min_reward": "high"}), Scope.PER_TRIAL, "with.min_reward", 'a number, not the text "high"'),
        (spec("guard", {"max_reward": "0.6"}), Scope.PER_TRIAL, "with.max_reward", 'a number, not the text "0.6"'),
        (spec("guard", {"min_steps": 1.5}), Scope.PER_TRIAL, "with.min_steps", "a whole number, not 1.5"),
        (spec("guard", {"require_measured": "yes"}), Scope.PER_TRIAL, "with.require_measured", 'not the text "yes"'),
        (spec("redact", {"ips": {"logs": "on"}}), Scope.PER_TRIAL, "with.ips.logs", "has to be true or false"),
        (spec("redact", {"variables": ["A", 1]}), Scope.PER_TRIAL, "with.variables[1]", "has to be text, not 1"),
        (spec("archive", {"shard": "3"}), Scope.PER_EXPERIMENT, "with.shard", 'a whole number, not the text "3"'),
        (spec("guard", {"min_reward": 1, "max_reward": 0}), Scope.PER_TRIAL, "with", "min_reward 1 is more than"),
        (spec("guard", {"min_coverage": 0.5}), Scope.PER_TRIAL, "with", "coverage has no meaning per_trial"),
        (spec("report", {"dest": "{{.RunI}}.md"}), Scope.PER_EXPERIMENT, "with.dest", "no variable {{.RunI}}"),
        (spec("report", {"dest": "{{RunID}}.md"}), Scope.PER_EXPERIMENT, "with.dest", "~{{.RunID}}"),
        (
            spec("report", {"dest": "{{.TrialID}}"}),
            Scope.PER_EXPERIMENT,
            "with.dest",
            "has no value in a per_experiment",
        ),
        (spec("admission", fix="repair"), Scope.PER_CASE, "fix", "no configured command 'repair'"),
        (spec("guard", {"min_reward": 1}, fix="x"), Scope.PER_TRIAL, "fix", "only a case can be repaired"),
        (spec("admission", fix_writeback=True), Scope.PER_CASE, "fix_writeback", "there is no fix"),
        (spec("admission", on_violation="drop"), Scope.PER_CASE, "on_violation", "only a trial can be dropped"),
        (spec("no_such_module:step"), Scope.PER_CASE, "uses", "no module 'no_such_module'"),
    ],
)
def test_what_is_wrong_is_said_with_its_path(step, scope, path, said):
    found = problems(step, scope, repairr=command("repairr"))
    assert said in found[path]


def test_all_problems_of_all_steps_are_found_at_once():
    pipeline = made(
        {
            "per_case": [{"uses": "admision"}],
            "per_trial": [{"uses": "guard", "with": {"min_rewards": 1, "max_step": 2}}],
            "per_experiment": [
                {"uses": "report", "with": {"dest": "{{.X}}", "form": "md"}},
                {"uses": "ship", "with": {"using": "nothing", "dest": "{{.X}}"}},
            ],
            "with": {"pass_att": 0.5},
        }
    )
    paths = [p.path for p in resolve_pipeline(pipeline, commands={}).problems]
    assert paths == [
        "pipeline.per_case[0].uses",
        "pipeline.per_trial[0].with.min_rewards",
        "pipeline.per_trial[0].with.max_step",
        "pipeline.per_experiment[0].with.dest",
        "pipeline.per_experiment[0].with.form",
        "pipeline.per_experiment[1].with.dest",
        "pipeline.per_experiment[1].with.using",
        "pipeline.with.pass_att",
    ]


def test_inputs_of_the_whole_pipeline_reach_the_steps_that_take_them():
    given = {
        "with": {"dest": "summary.md", "pass_at": 0.5},
        "per_experiment": [{"uses": "report", "with": {"pass_at": 0.8}}, {"uses": "tell"}],
        "per_trial": [{"uses": "guard", "with": {"min_reward": 1}}],
    }
    resolved = resolve_pipeline(made(given), commands={"tell": command("tell")})
    assert resolved.problems == ()
    report, tell = resolved.per_experiment
    assert report.given == {"dest": "summary.md", "pass_at": 0.8}
    assert tell.given == {"dest": "summary.md", "pass_at": 0.5}
    assert resolved.per_trial[0].given == {"min_reward": 1}


def test_an_input_of_the_whole_pipeline_that_nobody_takes_is_a_problem():
    given = {"with": {"dst": "x"}, "per_experiment": [{"uses": "report"}]}
    (problem,) = resolve_pipeline(made(given), commands={}).problems
    assert (problem.path, problem.message) == ("pipeline.with.dst", "no step takes this input")


@pytest.mark.parametrize("uses", ["no_such_thing_at_all", "no_such_module:step"])
def test_an_input_of_the_whole_pipeline_may_be_of_a_step_that_nobody_knows(uses):
    found = resolve_pipeline(made({"with": {"dst": "x"}, "per_case": [{"uses": uses}]}), commands={}).problems
    assert [problem.path for problem in found] == ["pipeline.per_case[0].uses"]


def test_a_wrong_input_of_the_whole_pipeline_is_told_once_where_it_is_given():
    given = {"with": {"pass_at": "0.8", "dest": "{{.X}}"}, "per_experiment": [{"uses": "report"}, {"uses": "report"}]}
    found = resolve_pipeline(made(given), commands={}).problems
    assert [problem.path for problem in found] == ["pipeline.with.dest", "pipeline.with.pass_at"]


def test_an_unknown_variable_among_the_words_of_a_command_is_found_before_it_runs():
    step = spec("send", {"bucket": "b"})
    good = command("send", "send", "{{.Key}}", "{{.LocalPath}}", "{{.Bucket}}", "{{.RunID}}", "{{.Experiment}}")
    assert resolve_step(step, Scope.PER_EXPERIMENT, {"send": good}).command == good
    with pytest.raises(StepRefused) as caught:
        resolve_step(step, Scope.PER_EXPERIMENT, {"send": command("send", "send", "{{.TrialID}}")})
    (problem,) = caught.value.problems
    # Another step may use it and have that variable.
    assert problem.path == "pipeline.per_experiment.send.uses"
    assert problem.message.startswith("the command send: there is no variable {{.TrialID}}. There are {{.")


def test_steps_of_one_name_have_directories_of_their_own():
    step = {"uses": "guard", "with": {"min_reward": 1}}
    resolved = resolve_pipeline(made({"per_trial": [step, step, {**step, "name": "a/b"}]}), commands={})
    keys = [s.key for s in resolved.per_trial]
    assert keys[:2] == ["guard", "guard-2"] and len(set(keys)) == 3 and "/" not in keys[2]


def test_a_fingerprint_changes_with_inputs_defaults_commands_and_named_files(tmp_path):
    rules = tmp_path / "rules.txt"
    rules.write_text("a")

    def of(given, name="check", argv=("true",)):
        return resolve_step(spec(name, given), Scope.PER_CASE, {"check": command("check", *argv)}).fingerprint()

    assert of({"rules": str(rules)}) == of({"rules": str(rules)})
    seen = {of({}), of({"rules": str(rules)}), of({}, argv=("true", "x")), of({}, name="admission")}
    seen.add(of({"trials": 3}, name="admission"))
    rules.write_text("b")
    seen.add(of({"rules": str(rules)}))
    assert len(seen) == 6
