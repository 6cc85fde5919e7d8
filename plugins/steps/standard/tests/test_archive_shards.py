from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.api import FailureCode, Record, Scope
from agentix.plugins.steps.standard.archive import Archive, ArchiveInputs
from agentix.plugins.steps.standard.archive.samples import keys

FIELDS = ["record.jsonl", "patch.diff", "trajectory.atif", "files.tar"]


@pytest.fixture
def run_dir(write_run) -> Path:
    """A run of twelve trials, each of which left something else."""
    records = []
    for number in range(12, 0, -1):
        measured = number < 8
        records.append(
            Record(
                trial_id=f"v1.2-oracle-{number}",
                case="cases/v1.2",
                agent="oracle",
                index=number,
                reward=1.0 if measured else None,
                failure_code=None if measured else FailureCode.ENV_FAILED,
                failure_detail=None if measured else "setup",
            )
        )
    root = write_run(records)
    for record in records:
        directory = root / "trials" / record.trial_id
        (directory / "out").mkdir(parents=True)
        (directory / "trial.json").write_text("{}")
        if record.measured:
            argument = record.index if record.index % 2 else "text"
            (directory / "trajectory.json").write_text(json.dumps({"steps": [{"arguments": {"x": argument}}]}))
        if record.index % 3 == 0:
            (directory / "patch.diff").write_bytes(b"--- a\n+++ b\xff\n")
        (directory / "out" / f"{record.index}.png").write_bytes(b"no picture")
        (directory / "out" / "broken.json").write_bytes(b"{")
    return root


async def shards(context, **inputs) -> list[Path]:
    outcome = await Archive().run(context(Scope.PER_EXPERIMENT), ArchiveInputs(**inputs))
    assert outcome.ok
    return [*outcome.publish.values()]


@pytest.mark.anyio
async def test_a_shard_holds_as_many_samples_as_asked_for_and_each_in_one_piece(run_dir, context):
    paths = await shards(context, shard=5)
    assert [path.name for path in paths] == ["spring-000000.tar", "spring-000001.tar", "spring-000002.tar"]
    names = []
    for path in paths:
        with tarfile.open(path) as tar:
            names.append(tar.getnames())
    assert [len(each) for each in names] == [20, 20, 8]
    expected = [f"v1_2-oracle-{number}.{field}" for number in range(1, 13) for field in FIELDS]
    assert [name for each in names for name in each] == expected


@pytest.mark.anyio
async def test_a_sample_holds_its_record_and_everything_of_its_trial(run_dir, context):
    (path,) = await shards(context, shard=100)
    lines = {json.loads(line)["trial_id"]: line for line in (run_dir / "results.jsonl").read_bytes().splitlines(True)}
    with tarfile.open(path) as tar:
        read = {name: tar.extractfile(name).read() for name in tar.getnames()}
    assert read["v1_2-oracle-3.record.jsonl"] == lines["v1.2-oracle-3"]
    assert read["v1_2-oracle-3.patch.diff"] == b"--- a\n+++ b\xff\n"
    assert read["v1_2-oracle-9.trajectory.atif"] == b""
    with tarfile.open(fileobj=io.BytesIO(read["v1_2-oracle-3.files.tar"])) as inner:
        assert inner.getnames() == ["out", "out/3.png", "out/broken.json", "trial.json"]
        assert inner.extractfile("out/3.png").read() == b"no picture"


@pytest.mark.anyio
async def test_the_order_in_which_trials_ended_does_not_change_a_byte(run_dir, context):
    first = [path.read_bytes() for path in await shards(context, shard=4, format="tar.gz")]
    lines = (run_dir / "results.jsonl").read_bytes().splitlines(True)
    (run_dir / "results.jsonl").write_bytes(b"".join(reversed(lines)))
    assert [path.read_bytes() for path in await shards(context, shard=4, format="tar.gz")] == first


@pytest.mark.anyio
async def test_fewer_shards_leave_none_of_the_earlier_ones(run_dir, context):
    await shards(context, shard=2)
    (path,) = await shards(context, shard=100)
    assert [*path.parent.iterdir()] == [path]


@pytest.mark.anyio
@pytest.mark.parametrize("format", ["tar", "tar.gz"])
async def test_datasets_reads_every_sample_whatever_the_trials_left(run_dir, context, offline_datasets, format):
    paths = await shards(context, shard=5, format=format)
    data = offline_datasets.load_dataset("webdataset", data_files={"train": [str(p) for p in paths]}, split="train")
    assert data.column_names == [*FIELDS, "__key__", "__url__"]
    assert data["__key__"] == [f"v1_2-oracle-{number}" for number in range(1, 13)]
    records = [json.loads(line) for line in data["record.jsonl"]]
    assert [record.get("failure_code") for record in records] == [None] * 7 + ["ENV_FAILED"] * 5
    assert [bool(patch) for patch in data["patch.diff"]] == [number % 3 == 0 for number in range(1, 13)]


@pytest.mark.anyio
async def test_a_run_of_which_nothing_may_be_published_has_no_shard(write_run, context):
    write_run([])
    assert await shards(context, shard=5) == []


def test_ids_that_differ_in_their_dots_only_have_different_keys():
    named = keys(["a.b-1", "a_b-1", "a.c-1"])
    assert named["a_b-1"] == "a_b-1" and named["a.c-1"] == "a_c-1"
    assert named["a.b-1"].startswith("a_b-1-")


@given(st.sets(st.text("ab._-1", min_size=1, max_size=6), max_size=30))
def test_keys_have_no_dots_and_are_as_many_as_trials(trial_ids):
    named = keys(sorted(trial_ids))
    assert len(set(named.values())) == len(trial_ids)
    assert not any("." in key for key in named.values())
