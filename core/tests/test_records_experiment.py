"""An experiment's run on disk: two steps a trial, its manifest, and what a resume finds."""

from __future__ import annotations

import json

import anyio
import pytest

from agentix.errors import RecordsDamaged, RunChanged, RunError, RunLocked
from agentix.models import Failure, FailureCode, Rollout, Trial
from agentix.records import (
    AgentRow,
    CaseUse,
    ExperimentManifest,
    ExperimentWriter,
    Layout,
    Manifest,
    PluginUse,
    RunWriter,
    Session,
    StepUse,
    load_run,
)
from agentix.records import commit as commit_module

pytestmark = pytest.mark.anyio

EXECUTOR = StepUse(scope="per_trial", label="rollout", uses="rollout", kind="plugin", fingerprint="f0")


def manifest(**values) -> ExperimentManifest:
    given = {
        "run_id": "r",
        "experiment": "e",
        "file": "e.yaml",
        "file_sha256": "0",
        "executor": EXECUTOR,
        "provider": PluginUse.of("docker", {"network": "none"}),
        "cases": tuple(
            CaseUse(name=n, label=f"cases/{n}", source="local", dataset=PluginUse.of("harbor"), sha256=n * 64)
            for n in "ab"
        ),
        "matrix": (AgentRow(agent="x", llm_spec="opus", use=PluginUse.of("x", {"effort": "high"}), trials=1),),
        "llm_specs": {"opus": {"model": "m-1"}},
        "planned": 2,
        "sessions": (Session(),),
    }
    return ExperimentManifest(**{**given, **values})


def trials(ids="ab") -> list[Trial]:
    return [Trial(trial_id=f"{name}-x-1", instance={"instance_id": name}) for name in ids]


def rollout(trial: Trial, **values) -> Rollout:
    given = {"instance_id": trial.instance_id, "trial_id": trial.trial_id, "index": trial.index}
    return Rollout(**{**given, **(values or {"score": {"reward": 1.0}})})


async def end(writer: ExperimentWriter, trial: Trial, **values):
    return await writer.trial_ended(rollout(trial, **values), trial, agent="x", case=f"cases/{trial.instance_id}")


async def test_a_trial_is_durable_when_it_has_ended_and_listed_when_its_steps_have(tmp_path):
    first, second = trials()
    with ExperimentWriter(tmp_path) as writer:
        writer.begin(manifest(), writer.plan(trials()))
        record = await end(writer, first)
        assert load_run(tmp_path).trial(first.trial_id).record == record
        assert list(load_run(tmp_path)) == []
        await writer.finish(record.model_copy(update={"dropped": True}))
        await end(writer, second)
    assert [(r.trial_id, r.case, r.dropped) for r in load_run(tmp_path)] == [("a-x-1", "cases/a", True)]
    with ExperimentWriter(tmp_path) as writer:
        resume = writer.plan(trials())
        assert (resume.run, list(writer.ended_trials)) == ((), ["b-x-1"])
        writer.begin(manifest(), resume)
        # Unlike a rollout's, its line waits for its steps.
        assert len(list(load_run(tmp_path))) == 1
        await writer.finish(writer.ended_trials["b-x-1"])
    assert len(list(load_run(tmp_path))) == 2


async def test_a_cancelled_trial_leaves_no_record(tmp_path):
    trial = trials()[0]
    with ExperimentWriter(tmp_path) as writer:
        writer.begin(manifest(), writer.plan(trials()))
        assert await end(writer, trial, failure=Failure(code=FailureCode.CANCELLED, message="")) is None
        assert writer.plan(trials()).run == tuple(trials())


async def test_a_started_trial_runs_again_and_what_it_left_is_set_aside(tmp_path):
    with ExperimentWriter(tmp_path) as writer:
        writer.begin(manifest(), writer.plan(trials()))
        (tmp_path / "trials/a-x-1/out").mkdir(parents=True)
        (tmp_path / "trials/a-x-1/out/reward.txt").write_text("1")
        (tmp_path / ".manifest.json.77.tmp").write_text("half")
    with ExperimentWriter(tmp_path) as writer:
        resume = writer.plan(trials())
        assert len(resume.run) == 2
        writer.begin(manifest(), resume)
    assert (tmp_path / "trials/a-x-1/earlier/1/out/reward.txt").exists()
    assert not (tmp_path / "trials/a-x-1/out").exists()
    assert not list(tmp_path.glob(".*.tmp"))


async def test_the_lock_is_held_from_the_start(tmp_path):
    with ExperimentWriter(tmp_path):
        with pytest.raises(RunLocked):
            ExperimentWriter(tmp_path)
        with pytest.raises(RunLocked):
            RunWriter(tmp_path, rollout_manifest())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"llm_specs": {"opus": {"model": "m-2"}}}, ["llm_spec opus model: m-1 -> m-2"]),
        ({"provider": PluginUse.of("docker", {"network": "host"})}, ["provider option network: none -> host"]),
        ({"provider": None}, ["provider: docker -> (none)"]),
        ({"limits": {"timeout": 60.0}}, ["limits timeout: (none) -> 60.0"]),
        ({"executor": EXECUTOR.model_copy(update={"uses": "harbor"})}, ["executor: rollout -> harbor"]),
        (
            {"matrix": (AgentRow(agent="x", llm_spec="opus", use=PluginUse.of("x", {"effort": "low"}), trials=1),)},
            ["agent x with opus option effort: high -> low"],
        ),
        ({"matrix": (AgentRow(agent="y", use=PluginUse.of("y"), trials=5),)}, []),
        ({"file_sha256": "1", "max_attempts": 7, "gate": ("PASS",), "cases": ()}, []),
    ],
)
async def test_a_change_that_matters_is_named_field_by_field(tmp_path, change, said):
    with ExperimentWriter(tmp_path) as writer:
        writer.begin(manifest(), writer.plan(trials()))
        await writer.finish(await end(writer, trials()[0]))
    with ExperimentWriter(tmp_path) as writer:
        new = manifest(**change)
        if said:
            with pytest.raises(RunChanged, match="not the one"):
                writer.check(new)
        assert writer.check(new, force=True) == said
        writer.begin(new, writer.plan(trials()), mixed=said)
        record = await end(writer, trials()[1])
        assert record.notes == tuple(f"mixed: {change}" for change in said)
    assert load_run(tmp_path).manifest.mixed == tuple(said)


async def test_without_results_nothing_is_another_measurement(tmp_path):
    with ExperimentWriter(tmp_path) as writer:
        writer.begin(manifest(), writer.plan(trials()))
    with ExperimentWriter(tmp_path) as writer:
        assert writer.check(manifest(provider=None)) == []


async def test_a_resume_forgets_nothing_that_was_planned(tmp_path):
    with ExperimentWriter(tmp_path) as writer:
        writer.begin(manifest(), writer.plan(trials()), n_concurrent=2)
    smaller = manifest(cases=manifest().cases[:1], planned=1)
    with ExperimentWriter(tmp_path) as writer:
        writer.begin(smaller, writer.plan(trials("a")), n_concurrent=5)
    found = load_run(tmp_path).manifest
    assert isinstance(found, ExperimentManifest)
    assert ([case.name for case in found.cases], found.planned) == (["a", "b"], 2)
    assert [session.n_concurrent for session in found.sessions] == [2, 5]


def rollout_manifest() -> Manifest:
    return Manifest(
        run_id="r",
        dataset=PluginUse.of("d"),
        agent=PluginUse.of("a"),
        provider=PluginUse.of("p"),
        sessions=(Session(),),
    )


async def test_the_two_kinds_of_run_are_told_apart(tmp_path):
    with ExperimentWriter(tmp_path / "e") as writer:
        writer.begin(manifest(), writer.plan(trials()))
    with RunWriter(tmp_path / "r", rollout_manifest()) as other:
        other.begin(other.plan(trials()))
    with pytest.raises(RunError, match=r"run of an experiment \(e\.yaml\)"):
        RunWriter(tmp_path / "e", rollout_manifest())
    with pytest.raises(RunError, match="no run of an experiment"):
        ExperimentWriter(tmp_path / "r")
    assert isinstance(load_run(tmp_path / "e").manifest, ExperimentManifest)
    assert isinstance(load_run(tmp_path / "r").manifest, Manifest)
    assert load_run(tmp_path / "e").manifest.title == "e: x on 2 cases through rollout in docker"


async def test_a_manifest_that_is_none_is_left_alone(tmp_path):
    Layout(tmp_path).manifest.write_text('{"kind": "experiment", "run_id": 3}')
    with pytest.raises(RecordsDamaged, match=r"manifest\.json"):
        ExperimentWriter(tmp_path)


async def test_what_the_disk_refuses_of_one_costs_no_other(tmp_path, monkeypatch):
    real = commit_module.write_files

    def full(files):
        if any("b-x-1" in str(path) for path, _ in files):
            raise OSError(28, "No space left on device")
        real(files)

    monkeypatch.setattr(commit_module, "write_files", full)
    many = trials("abcdefgh")
    refused = []

    async def one(trial: Trial) -> None:
        try:
            await writer.finish(await end(writer, trial))
        except OSError:
            refused.append(trial.trial_id)

    with ExperimentWriter(tmp_path) as writer:
        writer.begin(manifest(), writer.plan(many))
        async with anyio.create_task_group() as tasks:
            for trial in many:
                tasks.start_soon(one, trial)
    assert refused == ["b-x-1"]
    assert {record.trial_id for record in load_run(tmp_path)} == {t.trial_id for t in many} - {"b-x-1"}


@pytest.mark.parametrize(
    ("change", "said"),
    [({"case": "others/c"}, "the case others/c"), ({"agent": "y"}, "the agent y")],
)
async def test_a_line_of_what_the_run_never_had_is_refused_and_left_as_it_is(tmp_path, change, said):
    first, second = trials()
    with ExperimentWriter(tmp_path) as writer:
        writer.begin(manifest(), writer.plan(trials()))
        for trial in (first, second):
            await writer.finish(await end(writer, trial))
    path = Layout(tmp_path).results
    lines = [record.model_copy(update=change if n else {}).to_line() for n, record in enumerate(load_run(tmp_path))]
    path.write_bytes(b"".join(lines))
    with pytest.raises(RecordsDamaged, match=f"results.jsonl:2: b-x-1 is of {said}, which"):
        ExperimentWriter(tmp_path)
    assert path.read_bytes() == b"".join(lines)


async def test_lines_of_cases_that_were_moved_or_are_no_longer_planned_stay(tmp_path):
    planned = trials()
    with ExperimentWriter(tmp_path) as writer:
        writer.begin(manifest(), writer.plan(planned))
        for trial in planned:
            case = f"cases/{trial.instance_id}"
            ended = rollout(trial)
            record = await writer.trial_ended(ended, trial, agent="x", case=case, case_sha256=trial.instance_id * 64)
            await writer.finish(record)
    moved = manifest().cases[0].model_copy(update={"label": "elsewhere/a"})
    for cases in ((moved,), (moved,)):
        with ExperimentWriter(tmp_path) as writer:
            now = manifest(cases=cases)
            writer.begin(now, writer.plan(planned[:1]), mixed=writer.check(now))
    assert len(list(load_run(tmp_path))) == 2


async def test_lines_of_what_was_changed_by_force_stay(tmp_path):
    planned = trials()
    with ExperimentWriter(tmp_path) as writer:
        writer.begin(manifest(), writer.plan(planned))
        await writer.finish(await end(writer, planned[0]))
    other = manifest().cases[0].model_copy(update={"label": "elsewhere/a", "sha256": "c" * 64})
    for _ in range(2):
        with ExperimentWriter(tmp_path) as writer:
            now = manifest(cases=(other,))
            writer.begin(now, writer.plan(planned), mixed=writer.check(now, force=True))
    assert len(list(load_run(tmp_path))) == 1


@pytest.mark.parametrize("gone", ["the directory", "its place", "its lock", "its results"])
async def test_a_run_that_is_no_longer_where_it_was_gets_nothing_more_and_leaves_what_is_there_alone(tmp_path, gone):
    place, (first, second) = tmp_path / "r", trials()
    with ExperimentWriter(place) as writer:
        writer.begin(manifest(), writer.plan(trials()))
        record = await end(writer, first)
        if gone in ("the directory", "its place"):
            place.rename(tmp_path / "moved")
        elif gone == "its lock":
            writer.layout.lock.unlink()
        else:
            writer.layout.results.unlink()
        if gone == "its place":
            place.mkdir()
            with ExperimentWriter(place) as other:
                other.begin(manifest(), other.plan(trials()))
        before = content(tmp_path)

        with pytest.raises(RunError, match="removed"):
            await writer.finish(record)
        with pytest.raises(RunError, match="removed"):
            await end(writer, second)
        with pytest.raises(RunError, match="removed"):
            writer.update(writer.manifest.model_copy(update={"incomplete": "lost"}))
        assert content(tmp_path) == before
    assert content(tmp_path) == before


async def test_progress_is_not_written_into_a_run_that_has_taken_the_place_of_this_one(tmp_path):
    place = tmp_path / "r"
    with ExperimentWriter(place) as writer:
        writer.begin(manifest(), writer.plan(trials()))
        place.rename(tmp_path / "moved")
        with ExperimentWriter(place) as other:
            other.begin(manifest(), other.plan(trials()))
            await other.write_progress({"done": 7})
            with pytest.raises(OSError, match="no longer there"):
                await writer.write_progress({"done": 1})
            assert json.loads(other.layout.progress.read_bytes()) == {"done": 7}


def test_a_lock_that_another_run_holds_is_not_removed_with_an_own_one(tmp_path):
    place = tmp_path / "r"
    with ExperimentWriter(place):
        place.rename(tmp_path / "moved")
        other = ExperimentWriter(place)
    assert other.layout.lock.exists()
    with pytest.raises(RunLocked):
        ExperimentWriter(place)
    other.close()


def content(path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in path.rglob("*") if file.is_file() and file.name != ".lock"}
