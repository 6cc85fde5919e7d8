from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
import pytest

from agentix.errors import RunChanged, RunError, RunLocked
from agentix.models import Failure, FailureCode, Rollout, Trial
from agentix.records import (
    INFRA,
    Layout,
    Manifest,
    PlannedInstance,
    PluginUse,
    RunState,
    RunWriter,
    Session,
    load_run,
)
from agentix.records import commit as commit_module
from agentix.records import writer as writer_module

pytestmark = pytest.mark.anyio


def manifest(ids=("a", "b", "c"), **values) -> Manifest:
    given = {
        "run_id": "r",
        "dataset": PluginUse.of("d"),
        "agent": PluginUse.of("x", {"effort": "high"}),
        "provider": PluginUse.of("p"),
        "instances": tuple(PlannedInstance(id=name, sha256=f"{name}0") for name in ids),
        "sessions": (Session(),),
    }
    return Manifest(**{**given, **values})


def trials(ids=("a", "b", "c"), index=1) -> list[Trial]:
    return [Trial(trial_id=f"{name}-x-{index}", instance={"instance_id": name}, index=index) for name in ids]


def done(trial: Trial, **values) -> Rollout:
    given = {"instance_id": trial.instance_id, "trial_id": trial.trial_id, "index": trial.index}
    return Rollout(**{**given, **(values or {"score": {"reward": 1.0}})})


def failed(trial: Trial, code: FailureCode) -> Rollout:
    return done(trial, failure=Failure(code=code, message="no"))


async def run(path, *, results=None, plan=None, retry=frozenset(), force=False, make=manifest) -> list[str]:
    """One session; returns the ids of the trials that it ran."""
    ran = []
    with RunWriter(path, make(), force=force) as writer:
        resume = writer.plan(plan or trials(), retry=retry)
        writer.begin(resume)
        for trial in resume.run:
            ran.append(trial.trial_id)
            rollout = (results or {}).get(trial.instance_id, done)(trial)
            await writer.record(rollout, trial, agent="x")
    return ran


def snapshot(path):
    return {p.relative_to(path): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


async def test_every_result_has_a_line_and_its_files(tmp_path):
    odd = b"diff\xff\r\n"

    def with_everything(trial):
        return done(
            trial,
            score={"reward": 0.5, "log": "x"},
            patch=odd.decode("utf-8", "surrogateescape"),
            trajectory={"steps": []},
        )

    assert await run(tmp_path, results={"a": with_everything}) == ["a-x-1", "b-x-1", "c-x-1"]
    loaded = load_run(tmp_path)
    assert [record.trial_id for record in loaded.records] == ["a-x-1", "b-x-1", "c-x-1"]
    assert loaded.records[0].case_sha256 == "a0"
    assert loaded.patch("a-x-1") == odd
    assert loaded.patch("b-x-1") == b""
    assert loaded.trial("a-x-1").record == loaded.records[0]
    assert loaded.trial("a-x-1").files["patch.diff"].bytes == len(odd)
    names = {p.name for p in (tmp_path / "trials/a-x-1").iterdir()}
    assert names == {"trial.json", "patch.diff", "trajectory.json", "score.json"}


async def test_many_results_at_once_share_few_syncs_and_all_arrive(tmp_path, monkeypatch):
    ids = [f"i{number}" for number in range(300)]
    syncs = []
    monkeypatch.setattr(
        commit_module, "_make_durable", lambda fd, entries: (syncs.append(len(entries)), real(fd, entries))
    )
    with RunWriter(tmp_path, manifest(ids)) as writer:
        writer.begin(writer.plan(trials(ids)))
        async with anyio.create_task_group() as tasks:
            for trial in trials(ids):
                tasks.start_soon(lambda trial=trial: writer.record(done(trial), trial, agent="x"))
    assert len(load_run(tmp_path).records) == 300
    assert len(syncs) < 30


real = commit_module._make_durable


async def test_a_result_is_kept_although_its_task_is_being_cancelled(tmp_path):
    with RunWriter(tmp_path, manifest()) as writer:
        writer.begin(writer.plan(trials()))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await writer.record(done(trials()[0]), trials()[0], agent="x")
    assert [record.trial_id for record in load_run(tmp_path)] == ["a-x-1"]


async def test_a_cancelled_trial_is_no_result_and_runs_again(tmp_path):
    cancel = {"b": lambda trial: failed(trial, FailureCode.CANCELLED)}
    await run(tmp_path, results=cancel)
    assert await run(tmp_path) == ["b-x-1"]


async def test_a_finished_run_is_left_byte_for_byte(tmp_path):
    await run(tmp_path)
    before = snapshot(tmp_path)
    assert await run(tmp_path) == []
    assert snapshot(tmp_path) == before


async def test_a_trial_that_only_started_runs_again_and_its_files_are_kept_aside(tmp_path):
    await run(tmp_path, plan=trials(["a"]))
    log = tmp_path / "trials/b-x-1/attempts/1/agent.log"
    log.parent.mkdir(parents=True)
    log.write_text("half")
    assert await run(tmp_path) == ["b-x-1", "c-x-1"]
    assert (tmp_path / "trials/b-x-1/earlier/1/attempts/1/agent.log").read_text() == "half"


async def test_a_torn_last_line_is_cut_with_a_notice_and_that_trial_runs_again(tmp_path):
    await run(tmp_path)
    results = tmp_path / "results.jsonl"
    results.write_bytes(results.read_bytes()[:-30])
    with RunWriter(tmp_path, manifest()) as writer:
        assert any("results.jsonl:3" in notice and "c-x-1" in notice for notice in writer.notices)
    assert await run(tmp_path) == ["c-x-1"]
    assert [record.trial_id for record in load_run(tmp_path)] == ["a-x-1", "b-x-1", "c-x-1"]


async def test_a_good_line_without_newline_is_kept(tmp_path):
    await run(tmp_path, plan=trials(["a", "b"]))
    results = tmp_path / "results.jsonl"
    results.write_bytes(results.read_bytes()[:-1])
    assert await run(tmp_path) == ["c-x-1"]
    assert len(load_run(tmp_path).records) == 3


async def test_an_ended_trial_without_a_line_gets_it_without_running(tmp_path):
    await run(tmp_path)
    results = tmp_path / "results.jsonl"
    lines = results.read_bytes().splitlines(keepends=True)
    results.write_bytes(lines[0])
    assert await run(tmp_path) == []
    assert sorted(results.read_bytes().splitlines(keepends=True)) == sorted(lines)


async def test_reading_the_state_changes_nothing(tmp_path):
    await run(tmp_path, plan=trials(["a"]))
    results = tmp_path / "results.jsonl"
    results.write_bytes(results.read_bytes() + b'{"torn')
    before = snapshot(tmp_path)
    state = RunState.read(tmp_path)
    assert [trial.trial_id for trial in state.plan(trials()).run] == ["b-x-1", "c-x-1"]
    assert snapshot(tmp_path) == before


async def test_failures_run_again_only_when_asked_and_the_old_result_is_kept_aside(tmp_path):
    results = {
        "a": lambda t: failed(t, FailureCode.HOST_ERROR),
        "b": lambda t: failed(t, FailureCode.AGENT_TIMEOUT),
    }
    await run(tmp_path, results=results)
    assert await run(tmp_path) == []
    assert await run(tmp_path, retry=INFRA) == ["a-x-1"]
    loaded = load_run(tmp_path)
    assert {r.trial_id: r.failure_code for r in loaded} == {"a-x-1": None, "b-x-1": "AGENT_TIMEOUT", "c-x-1": None}
    aside = json.loads((tmp_path / "trials/a-x-1/earlier/1/trial.json").read_text())
    assert aside["record"]["failure_code"] == "HOST_ERROR"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "m2"}, r"model: \(none\) -> m2"),
        ({"agent": PluginUse.of("x", {"effort": "low"})}, "agent option effort: high -> low"),
        ({"provider": PluginUse.of("q")}, "provider: p -> q"),
        ({"instances": (PlannedInstance(id="a", sha256="new"),)}, "case a sha256: a0 -> new"),
        ({"limits": {"max_turns": 3}}, r"limits max_turns: \(none\) -> 3"),
    ],
)
async def test_a_changed_configuration_is_refused_field_by_field(tmp_path, change, said):
    await run(tmp_path, plan=trials(["a"]))
    with pytest.raises(RunChanged, match=said):
        RunWriter(tmp_path, manifest(**change))


async def test_a_forced_resume_marks_the_new_records_as_mixed(tmp_path):
    await run(tmp_path, plan=trials(["a"]))
    ran = await run(tmp_path, force=True, plan=trials(["a", "b"]), make=lambda: manifest(model="m2"))
    assert ran == ["b-x-1"]
    await run(tmp_path, make=lambda: manifest(model="m2"))
    notes = {record.case: record.notes for record in load_run(tmp_path)}
    assert notes == {"a": (), "b": ("mixed: model: (none) -> m2",), "c": ("mixed: model: (none) -> m2",)}


async def test_more_trials_run_just_the_new_ones(tmp_path):
    await run(tmp_path)
    wanted = [*trials(), *trials(index=2)]
    ran = await run(tmp_path, plan=wanted, make=lambda: manifest(trials=2))
    assert ran == ["a-x-2", "b-x-2", "c-x-2"]
    assert load_run(tmp_path).manifest.planned == 6


async def test_what_was_planned_once_stays_planned(tmp_path):
    await run(tmp_path, make=lambda: manifest(trials=2), plan=[*trials(), *trials(index=2)])
    await run(tmp_path, make=lambda: manifest(["c", "d"]), plan=trials(["c", "d"]))
    assert load_run(tmp_path).manifest.planned == 7


async def test_a_second_writer_is_refused_while_the_first_is_open(tmp_path):
    with RunWriter(tmp_path, manifest()), pytest.raises(RunLocked, match=str(os.getpid())):
        RunWriter(tmp_path, manifest())
    RunWriter(tmp_path, manifest()).close()


async def test_secret_options_are_not_stored_but_their_change_is_seen(tmp_path):
    first, second = (PluginUse.of("x", {"api_key": key}) for key in ("sk-CANARY-1", "sk-CANARY-2"))
    assert "CANARY" not in manifest(agent=first).to_bytes().decode()
    assert manifest(agent=first).changes(manifest(agent=second))


async def test_a_disk_that_refuses_is_an_error_of_that_record_and_leaves_whole_lines(tmp_path, monkeypatch):
    def full(fd, data):
        os.write(fd, data[:10])
        raise OSError(28, "No space left on device")

    with RunWriter(tmp_path, manifest()) as writer:
        writer.begin(writer.plan(trials()))
        await writer.record(done(trials()[0]), trials()[0], agent="x")
        with monkeypatch.context() as patch:
            patch.setattr(commit_module, "write_all", full)
            with pytest.raises(OSError, match="No space"):
                await writer.record(done(trials()[1]), trials()[1], agent="x")
        await writer.record(done(trials()[2]), trials()[2], agent="x")
    assert [record.case for record in load_run(tmp_path)] == ["a", "c"]


async def test_progress_is_replaced_whole(tmp_path):
    with RunWriter(tmp_path, manifest()) as writer:
        for done_count in (1, 2):
            await writer.write_progress({"done": done_count})
    assert json.loads((tmp_path / "progress.json").read_text()) == {"done": 2}


async def test_progress_that_cannot_be_written_leaves_the_old_one_and_nothing_else(tmp_path, monkeypatch):
    def full(path, data):
        path.touch()
        raise OSError(28, "No space left on device")

    with RunWriter(tmp_path, manifest()) as writer:
        await writer.write_progress({"done": 1})
        with monkeypatch.context() as patch:
            patch.setattr(Path, "write_bytes", full)
            with pytest.raises(OSError, match="No space"):
                await writer.write_progress({"done": 2})
    assert json.loads((tmp_path / "progress.json").read_text()) == {"done": 1}
    assert not [*tmp_path.glob(".progress*")]


async def test_a_run_that_cannot_be_begun_says_where(tmp_path, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer_module, "write_file", full)
    said = pytest.raises(RunError, match="r: cannot be written: No space left on device")
    with RunWriter(tmp_path / "r", manifest()) as writer, said:
        writer.begin(writer.plan(trials()))


@pytest.mark.parametrize("bad", ["", ".", "..", "a/b"])
def test_a_trial_id_never_leaves_its_directory(tmp_path, bad):
    with pytest.raises(RunError):
        Layout(tmp_path).trial(bad)


def test_results_without_a_manifest_cannot_be_resumed(tmp_path):
    (tmp_path / "results.jsonl").write_bytes(b'{"schema_version":1,"trial_id":"t","case":"c","reward":1.0}\n')
    with pytest.raises(RunError, match=r"no manifest\.json"):
        RunState.read(tmp_path)


def test_a_directory_without_a_run_is_no_run(tmp_path):
    with pytest.raises(RunError, match="no run here"):
        load_run(tmp_path)
