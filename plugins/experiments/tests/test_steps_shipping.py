"""What ships: the step `ship`, the steps of transports, and what of a file about them is wrong."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType

import pytest

from agentix.api import Scope, ShipRefused, StepContext
from agentix.plugins.experiments.commands import Command
from agentix.plugins.experiments.documents import StepSpec
from agentix.plugins.experiments.steps import StepRefused, resolve_step
from agentix.plugins.experiments.steps.command_step import environment
from agentix.plugins.experiments.steps.transport_step import TransportStep

AT = "pipeline.per_experiment[1]"
NONE: MappingProxyType[str, Command] = MappingProxyType({})


def command(name: str, *argv: str) -> Command:
    return Command(name=name, form="run", argv=argv or ("true",), origin=Path("file.yaml"))


def resolve(uses: str, given, *, commands=NONE, scope=Scope.PER_EXPERIMENT, notices=None, **more):
    spec = StepSpec.model_validate({"uses": uses, "with": given})
    return resolve_step(spec, scope, commands, path=AT, notices=notices, **more)


def wrong(uses: str, given, **more) -> dict[str, str]:
    with pytest.raises(StepRefused) as caught:
        resolve(uses, given, **more)
    return {p.path.removeprefix(f"{AT}."): f"{p.message} ~{p.near}" for p in caught.value.problems}


def test_a_transport_is_a_step_of_its_name(depot):
    step = resolve("ship_my_store", {"dest": "shelf", "path": "dataset", "depth": 2})
    assert isinstance(step.step, TransportStep)
    assert (step.kind, step.plugin) == ("plugin", f"my-store ({depot})")
    assert (step.publishes, step.ships, step.redacts, step.executes) == (True, True, False, False)
    assert (step.path, step.given) == ("dataset", {"dest": "shelf", "depth": 2})


@pytest.mark.parametrize("using", ["ship_my_store", "my-store", "lab-depot/my-store", "lab-depot/ship_my_store"])
def test_ship_uses_a_transport_by_the_name_of_its_step_or_its_own(depot, using):
    given = {"using": using, "dest": "shelf", "path": "archives", "options": {"depth": 3}}
    step = resolve("ship", given)
    assert isinstance(step.step, TransportStep)
    assert (step.plugin, step.label, step.path) == (f"my-store ({depot})", "ship", "archives")
    assert step.given == {"dest": "shelf", "depth": 3}


def test_ship_hands_to_a_configured_command_its_destination_and_its_options(ctx_of):
    commands = {"ship": command("ship", "rclone", "copyto", "--", "{{.LocalPath}}", "one:{{.Dest}}/{{.Key}}")}
    given = {"using": "ship", "dest": "jobs/{{.RunID}}", "options": {"maxFiles": 3}}
    step = resolve("ship", given, commands=commands)
    assert (step.kind, step.step, step.command) == ("command", None, commands["ship"])
    assert (step.publishes, step.ships, step.path) == (True, True, None)
    ctx = ctx_of(Scope.PER_EXPERIMENT)
    found = environment(ctx, step.inputs(ctx))
    assert found["DEST"] == "jobs/nightly"
    assert found["MAX_FILES"] == "3"
    assert found["RUN_DIR"] == str(ctx.run_dir)
    assert found["LOCAL_PATH"] == str(ctx.run_dir)
    assert found["WORK_DIR"] == str(ctx.work_dir)
    assert found["KEY"] == "spring/nightly"
    assert {"USING", "PATH", "OPTIONS"}.isdisjoint(found)
    shipped = replace(ctx, path=ctx.run_dir / "dataset")
    assert environment(shipped, step.inputs(shipped))["LOCAL_PATH"] == str(ctx.run_dir / "dataset")
    ctx = ctx_of(Scope.PER_TRIAL)
    assert environment(replace(ctx, path=ctx.run_dir / "a.tar"), {})["LOCAL_PATH"] == str(ctx.run_dir / "a.tar")


def test_using_prefers_a_configured_command_and_says_so(depot):
    notices: list[str] = []
    commands = {"ship_my_store": command("ship_my_store")}
    step = resolve("ship", {"using": "ship_my_store", "dest": "Any"}, commands=commands, notices=notices)
    assert step.command is commands["ship_my_store"]
    (notice,) = notices
    assert "the configured command ship_my_store ships" in notice
    assert notice.startswith(f"{AT}.with.using: ")


def test_a_step_prefers_the_transport_and_says_so(depot):
    notices: list[str] = []
    commands = {"ship_my_store": command("ship_my_store")}
    step = resolve("ship_my_store", {"dest": "shelf"}, commands=commands, notices=notices)
    assert step.command is None
    assert notices == [
        f"{AT}.uses: the installed transport my-store ({depot}) ships, not the configured command ship_my_store"
    ]


def test_a_command_is_the_fallback_of_a_transport_that_is_not_installed():
    commands = {"ship_tape": command("ship_tape", "send", "{{.Dest}}", "{{.LocalPath}}")}
    step = resolve("ship_tape", {"dest": "reel", "path": "dataset"}, commands=commands)
    assert (step.kind, step.command, step.path, step.given) == (
        "command", commands["ship_tape"], "dataset", {"dest": "reel"}
    )  # fmt: skip
    assert step.publishes and step.ships


def test_a_command_that_ships_is_no_executor_where_it_stands_first():
    step = resolve("ship_tape", {}, commands={"ship_tape": command("x")}, scope=Scope.PER_TRIAL, first=True)
    assert not step.executes and step.ships


def test_what_it_ships_has_its_templates_filled_in_for_each_unit(depot, ctx_of):
    step = resolve("ship_my_store", {"dest": "x", "path": "archives/{{.TrialID}}.tar"}, scope=Scope.PER_TRIAL)
    assert step.path == "archives/{{.TrialID}}.tar"
    assert step.source(ctx_of(Scope.PER_TRIAL)) == PurePosixPath("archives/c-oracle-1.tar")
    step = resolve("ship_my_store", {"dest": "x", "path": "{{.Experiment}}/x"})
    with pytest.raises(ShipRefused, match="leads out of"):
        step.source(replace(ctx_of(Scope.PER_EXPERIMENT), experiment="../.."))
    assert resolve("ship_my_store", {"dest": "x"}).source(ctx_of(Scope.PER_EXPERIMENT)) is None


@pytest.mark.parametrize(
    ("uses", "given", "path", "said"),
    [
        ("ship", {}, "with.using", "has to be given"),
        ("ship", {"using": "ship_my_stoer"}, "with.using", "nor a transport ~ship_my_store"),
        ("ship", {"using": "my-stoer"}, "with.using", "nor a transport ~my-store"),
        ("ship", {"using": "sendd"}, "with.using", "neither a configured command nor a step that ships ~send"),
        ("ship", {"using": "ship"}, "with.using", "'ship' is neither"),
        ("ship", {"using": "report"}, "with.using", "'report' is neither"),
        ("ship", {"using": "send", "dst": "x"}, "with.dst", "no such input"),
        ("ship", {"using": "send", "dst": "x"}, "with.dst", "~dest"),
        ("ship", {"using": "ship_my_store"}, "with.dest", "has to be given"),
        ("ship", {"using": "ship_my_store", "dest": "5"}, "with.dest", "should match pattern"),
        ("ship", {"using": "my-store", "dest": "x", "options": {"deep": 2}}, "with.options.deep", "~depth"),
        ("ship", {"using": "my-store", "dest": "x", "options": {"depth": 0}}, "with.options.depth", "greater than"),
        (
            "ship",
            {"using": "my-store", "dest": "x", "options": {"tags": {"a": "b"}}},
            "with.options.tags.a",
            "a whole number",
        ),
        ("ship", {"using": "my-store", "options": {"dest": "x"}}, "with.options.dest", "beside the options"),
        ("ship", {"using": "send", "options": {"path": "x"}}, "with.options.path", "beside the options"),
        ("ship", {"using": "my-store", "dest": "{{.RunIdd}}"}, "with.dest", "~{{.RunID}}"),
        ("ship", {"using": "my-store", "dest": "x", "options": {"a": "{{.TrialID}}"}}, "with.options.a", "no value in"),
        ("ship", {"using": "broken", "dest": "x"}, "with.using", "broken"),
        ("ship", {"using": "with-path", "dest": "x"}, "with.using", "Inputs have a 'path'"),
        ("ship_my_store", {"dest": "x", "depth": "two"}, "with.depth", "a whole number"),
        ("ship_my_store", {"dest": "x", "dept": 2}, "with.dept", "~depth"),
        ("ship_my_stroe", {}, "uses", "~ship_my_store"),
        ("ship_broken", {"dest": "x"}, "uses", "broken"),
        ("ship_my_store", {"dest": "x", "path": "/etc"}, "with.path", "relative"),
        ("ship_my_store", {"dest": "x", "path": "dataset/../../.."}, "with.path", "leads out of"),
        ("ship_my_store", {"dest": "x", "path": ""}, "with.path", "has to be the path"),
        ("ship_my_store", {"dest": "x", "path": 3}, "with.path", "has to be text"),
        ("ship_my_store", {"dest": "x", "path": "{{.LocalPath}}"}, "with.path", "is what is shipped"),
        ("ship", {"using": "send", "path": "../x"}, "with.path", "leads out of"),
        ("ship_tape", {"path": "/x"}, "with.path", "relative"),
    ],
)
def test_what_is_wrong_is_said_where_the_file_has_it(depot, uses, given, path, said):
    commands = {name: command(name) for name in ("send", "ship_tape")}
    found = wrong(uses, given, commands=commands)
    assert set(found) == {path}
    for part in said.split(" ~"):
        assert part in found[path]


def test_words_of_the_command_that_name_nothing_are_found_before_it_runs():
    commands = {"send": command("send", "rclone", "{{.Bucket}}")}
    with pytest.raises(StepRefused) as caught:
        resolve("ship", {"using": "send", "dest": "x"}, commands=commands)
    assert [p.path for p in caught.value.problems] == ["pipeline.per_experiment[1].with.using"]
    assert resolve("ship", {"using": "send", "options": {"bucket": "b"}}, commands=commands).command is not None


def test_a_transport_works_in_its_own_lists_only(depot):
    found = wrong("ship", {"using": "whole", "dest": "x"}, scope=Scope.PER_TRIAL)
    assert found == {"with.using": "it works per_experiment, not per_trial ~None"}
    found = wrong("ship_whole", {"dest": "x"}, scope=Scope.PER_TRIAL)
    assert found == {"uses": "the step ship_whole works per_experiment, not per_trial ~None"}


@pytest.mark.parametrize("uses", ["ship", "ship_my_store", "ship_tape"])
def test_what_is_sent_away_comes_to_no_verdict(depot, uses):
    spec = {"uses": uses, "with": {"using": "tape", "dest": "x"}, "on_violation": "drop"}
    if uses != "ship":
        del spec["with"]["using"]
    commands = {"tape": command("tape"), "ship_tape": command("ship_tape")}
    with pytest.raises(StepRefused) as caught:
        resolve_step(StepSpec.model_validate(spec), Scope.PER_TRIAL, commands, path=AT)
    (problem,) = caught.value.problems
    assert (problem.path, "say on_failure" in problem.message) == (f"{AT}.on_violation", True)


def test_nothing_is_published_of_a_case():
    found = wrong("ship_tape", {}, scope=Scope.PER_CASE, commands={"ship_tape": command("x")})
    assert "of a case nothing is published" in found["uses"]


def test_an_absent_transport_of_ours_says_what_to_install(monkeypatch):
    from agentix.plugins.experiments.steps import finding

    monkeypatch.setattr(finding, "list_plugins", lambda kind: [])
    monkeypatch.setattr(finding, "load", _not_there)
    assert "; pip install agentix-rollouts-hf ~" in wrong("ship_hf", {"dest": "a/b"})["uses"]


def _not_there(kind, ref, *args, **kwargs):
    from agentix.api import PluginNotFound

    assert (kind, ref) == ("transport", "hf")
    raise PluginNotFound("transport: no transport is named 'hf'", hint="pip install agentix-rollouts-hf; installed: x")


def test_a_fingerprint_knows_what_is_shipped_and_with_what(depot):
    commands = {"send": command("send"), "other": command("other", "x")}
    seen = [
        resolve("ship", given, commands=commands).fingerprint()
        for given in (
            {"using": "my-store", "dest": "x"},
            {"using": "my-store", "dest": "y"},
            {"using": "my-store", "dest": "x", "path": "dataset"},
            {"using": "whole", "dest": "x"},
            {"using": "send", "dest": "x"},
            {"using": "other", "dest": "x"},
        )
    ]
    assert len(set(seen)) == 6
    assert resolve("ship", {"using": "my-store", "dest": "x"}).fingerprint() == seen[0]


def test_a_transport_of_a_file_ships_too(depot, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text((tmp_path / "site" / "agentix_test_depot.py").read_text() + "\ntransport = Depot\n")
    step = resolve("ship", {"using": str(file), "dest": "x"})
    assert step.ships and isinstance(step.step, TransportStep)
    before = step.fingerprint()
    file.write_text(file.read_text() + "# edited\n")
    sys.modules.pop(type(step.step.transport).__module__)
    assert resolve("ship", {"using": str(file), "dest": "x"}).fingerprint() != before


@pytest.fixture
def ctx_of(tmp_path):
    for name in ("run", "work", "trial"):
        (tmp_path / name).mkdir()

    def made(scope: Scope) -> StepContext:
        return StepContext(
            scope=scope,
            run_id="nightly",
            run_dir=tmp_path / "run",
            work_dir=tmp_path / "work",
            experiment="spring",
            subject={"trial_id": "c-oracle-1"},
            trial_dir=tmp_path / "trial" if scope is Scope.PER_TRIAL else None,
        )

    return made
