from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import anyio
import pyarrow.parquet
import pytest
from dataset_runs import CANARY, DROPPED, HOSTILE, trial
from pydantic import ValidationError

from agentix.api import FailureCode, Scope
from agentix.plugins.steps.standard.dataset import Dataset, DatasetInputs
from agentix.plugins.steps.standard.dataset.columns import COLUMNS
from agentix.plugins.steps.standard.dataset.tables import Parquet
from agentix.records import UsageRecord
from agentix.records.experiment import CaseUse
from agentix.records.manifest import PluginUse

pytestmark = pytest.mark.anyio


def rows(dataset: Path) -> list[dict]:
    return [json.loads(line) for line in (dataset / "data" / "trials.jsonl").read_text().splitlines()]


def contents(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


def plain(dataset: Path) -> bytes:
    """All that is in it, also what is compressed."""
    files = [*(dataset / "data").glob("*.parquet")]
    tables = [pyarrow.parquet.read_table(file).to_pylist() for file in files]
    return b"".join(contents(dataset).values()) + repr(tables).encode()


def opened(datasets, directory: Path):
    return datasets.load_dataset(str(directory), split="train", cache_dir=str(directory.parent / "cache"))


async def test_a_row_has_every_column_whatever_its_trial_was(make_run, written):
    make_run()
    found = rows(await written())
    assert [list(row) for row in found] == [list(COLUMNS)] * 4
    by_id = {row["trial_id"]: row for row in found}
    assert set(by_id) == {"t1", "t2", "t3", "t5"}
    assert by_id["t2"]["metrics"] == [{"name": "lines", "value": 7.0}, {"name": "tests", "value": 3.0}]
    assert (by_id["t2"]["model"], by_id["t2"]["input_tokens"], by_id["t2"]["cost_usd"]) == ("opus-4", 100, 0.5)
    assert (by_id["t1"]["input_tokens"], by_id["t1"]["resolved"], by_id["t1"]["redactions"]) == (None, True, 3)
    assert (by_id["t3"]["reward"], by_id["t3"]["resolved"]) == (None, None)
    assert by_id["t5"]["case"] == HOSTILE


async def test_patches_of_any_bytes_trajectories_and_archives_are_in_the_rows(make_run, written):
    make_run()
    by_id = {row["trial_id"]: row for row in rows(await written())}
    assert (by_id["t1"]["patch"], by_id["t1"]["patch_encoding"]) == ("--- a\n+++ b\n", "utf-8")
    assert base64.b64decode(by_id["t2"]["patch"]) == b"--- a\n+++ \xff\n"
    assert by_id["t2"]["patch_encoding"] == "base64"
    assert json.loads(by_id["t1"]["trajectory"])["steps"]
    assert by_id["t1"]["archive"] == "archives/t1.tar.gz"
    assert (by_id["t3"]["patch"], by_id["t3"]["patch_bytes"], by_id["t3"]["archive"]) == (None, None, None)


async def test_what_is_too_large_for_a_row_is_counted_and_not_in_it(make_run, written, monkeypatch):
    monkeypatch.setattr("agentix.plugins.steps.standard.dataset.rows.LARGEST", 10)
    make_run()
    dataset = await written()
    (row,) = [row for row in rows(dataset) if row["trial_id"] == "t1"]
    assert (row["patch"], row["patch_bytes"], row["trajectory"]) == (None, 12, None)
    assert "2 rows lack a patch or a trajectory" in (dataset / "README.md").read_text()


async def test_dropped_and_unmeasured_trials_have_rows_where_that_is_asked_for(make_run, written):
    make_run()
    dataset = await written(include_dropped=True, include_infra_failures=True)
    found = rows(dataset)
    assert [row["trial_id"] for row in found] == ["t5", "t1", "t2", "t3", "t4", "t6"]
    assert [row["dropped"] for row in found] == [False] * 5 + [True]
    assert (found[4]["failure_code"], found[4]["failure_message"]) == ("HOST_ERROR", "the disk is full")


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
async def test_datasets_opens_the_directory_by_its_card(make_run, written, offline_datasets, format):
    make_run()
    data = opened(offline_datasets, await written(format=format, include_infra_failures=True))
    assert data.column_names == list(COLUMNS)
    assert data["trial_id"] == ["t5", "t1", "t2", "t3", "t4"]
    assert data["reward"] == [1.0, 1.0, 0.5, None, None]
    assert data["metrics"][2] == [{"name": "lines", "value": 7.0}, {"name": "tests", "value": 3.0}]
    assert data["case"][0] == HOSTILE


async def test_both_formats_have_the_same_types_whatever_the_run_was(
    make_run, write_run, written, offline_datasets, tmp_path
):
    make_run([trial(1, 1.0)])
    features = []
    for format in ("jsonl", "parquet"):  # noqa: A001
        dataset = await written(format=format, dropped=())
        features.append(opened(offline_datasets, dataset).features)
    assert features[0] == features[1]
    assert {name: feature.dtype for name, feature in features[0].items() if name in ("failure_code", "turns")} == {
        "failure_code": "string",
        "turns": "int64",
    }


async def test_a_column_that_begins_with_thousands_of_nulls_is_read(make_run, written, offline_datasets):
    long = ("n" * 2000,) * 6
    many = [trial(number, 1.0, notes=long) for number in range(1, 1100)]
    make_run([*many, trial(2000, 0.0, ended="timeout", usage=UsageRecord(turns=3))])
    data = opened(offline_datasets, await written(dropped=()))
    assert (data[-1]["ended"], data[-1]["turns"], data[0]["turns"]) == ("timeout", 3, None)


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
async def test_of_a_run_of_which_nothing_may_be_published_there_is_no_dataset(make_run, context, format):
    make_run([])
    ctx = context(Scope.PER_EXPERIMENT, withheld=lambda: [DROPPED.to_data()])
    outcome = await Dataset().run(ctx, DatasetInputs(format=format))
    assert outcome.ok and outcome.publish == {}
    assert outcome.message == "no row, and so no dataset; without 1 dropped"


async def test_many_rows_go_to_several_files_of_parquet(tmp_path, offline_datasets):
    (tmp_path / "data").mkdir()
    with Parquet(tmp_path, shard=10_000) as table:
        for number in range(7):
            table.add({**dict.fromkeys(COLUMNS), "trial_id": str(number), "patch": "x" * 4000})
        assert table.finish() == "data/trials-*.parquet"
    files = sorted((tmp_path / "data").iterdir())
    assert [file.name for file in files] == [f"trials-{number:05d}-of-00004.parquet" for number in range(4)]
    read = [pyarrow.parquet.read_table(file).column("trial_id").to_pylist() for file in files]
    assert [name for names in read for name in names] == [str(number) for number in range(7)]


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
async def test_the_same_run_gives_the_same_bytes(make_run, written, format):
    root = make_run()
    first = contents(await written(format=format))
    lines = (root / "results.jsonl").read_bytes().splitlines(True)
    (root / "results.jsonl").write_bytes(b"".join(reversed(lines)))
    assert contents(await written(format=format)) == first


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
async def test_a_known_secret_is_in_no_byte(make_run, written, format):
    records = [
        trial(1, 1.0, notes=(f"the key is {CANARY}",), case=f"cases/{CANARY}"),
        trial(2, None, failure_code=FailureCode.AGENT_FAILED, failure_message=f"bad key {CANARY}", agent=CANARY),
    ]
    root = make_run(
        records,
        provider=PluginUse(ref="docker", options={"proxy": f"http://x:{CANARY}@host"}),
        cases=(CaseUse(name="a", label=f"cases/{CANARY}", source="git", dataset=PluginUse(ref="harbor")),),
        gate=(f"case cases/{CANARY}: {CANARY}",),
        mixed=(CANARY,),
        experiment=CANARY,
    )
    (root / "trials" / "t1" / "patch.diff").write_bytes(b"\xff" + CANARY.encode())
    (root / "trials" / "t1" / "trajectory.json").write_text(
        json.dumps({"said": base64.b64encode(CANARY.encode()).decode()})
    )
    dropped = trial(6, None, failure_code=FailureCode.AGENT_FAILED, failure_message=CANARY)
    given = {"format": format, "title": f"with {CANARY}", "include_dropped": True, "dropped": (dropped,)}
    assert CANARY.encode() in plain(await written(**given))
    dataset = await written(**given, secrets=[CANARY])
    for content in (plain(dataset), *contents(dataset).values()):
        assert CANARY.encode() not in content
        assert base64.b64encode(CANARY.encode()) not in content
    if format == "jsonl":
        by_id = {row["trial_id"]: row for row in rows(dataset)}
        assert base64.b64decode(by_id["t1"]["patch"]) == b"\xff***"


async def test_what_was_there_before_is_replaced(make_run, written):
    make_run()
    await written(format="parquet")
    dataset = await written()
    assert [*contents(dataset)] == ["README.md", "cases.jsonl", "data/trials.jsonl"]


async def test_what_is_cancelled_leaves_nothing_behind(make_run, written, monkeypatch, tmp_path):
    make_run()
    with anyio.CancelScope() as scope:
        checked = anyio.from_thread.check_cancelled

        def check() -> None:
            anyio.from_thread.run_sync(scope.cancel)
            checked()

        monkeypatch.setattr(anyio.from_thread, "check_cancelled", check)
        await written()
    assert scope.cancelled_caught
    assert contents(tmp_path / "work") == {}


def test_a_missing_pyarrow_is_told_before_anything_runs(monkeypatch):
    assert list(Dataset().check(DatasetInputs(format="parquet"))) == []
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr("agentix.plugins.steps.standard.dataset.step.find_spec", lambda name: None)
    (said,) = Dataset().check(DatasetInputs(format="parquet"))
    assert "pip install 'agentix-rollouts-steps[parquet]'" in said
    assert list(Dataset().check(DatasetInputs())) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dir": "/tmp/x"}, "no place in the run's directory"),
        ({"dir": "../x"}, "no place in the run's directory"),
        ({"dir": "trials/x"}, "the run keeps its own files"),
        ({"license": "Apache 2.0"}, r"did you mean apache-2.0\?"),
        ({"format": "csv"}, "'jsonl' or 'parquet'"),
        ({"licence": "mit"}, "Extra inputs"),
        ({"title": ""}, "at least 1 character"),
    ],
)
def test_inputs_that_mean_nothing_are_refused(given, message):
    with pytest.raises(ValidationError, match=message):
        DatasetInputs(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "4 rows in dataset; without 1 dropped and 1 not measured"),
        ({"include_dropped": True, "dir": "rows"}, "5 rows in rows, 1 dropped among them; without 1 not measured"),
    ],
)
async def test_it_tells_how_many_rows_there_are_and_what_they_lack(make_run, context, given, message):
    make_run()
    ctx = context(Scope.PER_EXPERIMENT, withheld=lambda: [DROPPED.to_data()])
    assert (await Dataset().run(ctx, DatasetInputs(**given))).message == message
