from __future__ import annotations

import base64
import gzip
import hashlib
import os
from itertools import count
from pathlib import Path

import anyio
import pytest
from pydantic import ValidationError

from agentix.api import RecordsDamaged, Rollout, Run, Scope, Secrets
from agentix.plugins.steps.standard.redact import Redact, RedactInputs
from agentix.records import Record
from agentix.records.trial_files import trial_files

KEY = "hunter2-canary-0123456789"
TRIAL = "a-oracle-1"


@pytest.fixture
def trial_dir(tmp_path) -> Path:
    """A trial that left its key nearly everywhere."""
    directory = tmp_path / "trials" / TRIAL
    directory.mkdir(parents=True)
    rollout = Rollout(
        "a",
        patch=f"+key = {KEY}\n",
        trajectory={"steps": [{"message": f"I was given {KEY} on 203.0.113.7"}]},
        score={"reward": 1.0, "said": f"from 203.0.113.8 with {KEY}"},
        info={"key": KEY},
    )
    record = Record(trial_id=TRIAL, case="a", agent="oracle", reward=1.0, notes=(f"note {KEY}",))
    for name, data in trial_files(rollout, record, versions={}):
        (directory / name).write_bytes(data)
    (directory / "out").mkdir()
    (directory / "out" / "agent.log").write_text(
        f"200 from 203.0.113.9 with {base64.b64encode(KEY.encode()).decode()}\n"
    )
    (directory / "out" / "traj.jsonl").write_text('{"from": "203.0.113.10"}\n')
    (directory / "out" / "core.bin").write_bytes(b"\x7fELF\0\0" + KEY.encode() + b"\0")
    (directory / "out" / "clean.bin").write_bytes(b"\x7fELF\0\0\xff")
    (directory / "out" / ".half.tmp").write_text(KEY)
    (directory / "out" / "link").symlink_to("/etc/passwd")
    os.mkfifo(directory / "out" / "pipe")
    for name in ("earlier/1", "steps/redact"):
        (directory / name).mkdir(parents=True)
        (directory / name / "log").write_text(KEY)
    return directory


@pytest.fixture
def redacted(context, trial_dir):
    async def redact(*, secrets=(KEY,), **given):
        ctx = context(Scope.PER_TRIAL, trial_dir=trial_dir, subject={"trial_id": TRIAL}, secrets=Secrets(secrets))
        outcome = await Redact().run(ctx, RedactInputs(**given))
        assert outcome.ok and [*outcome.publish] == [f"trials/{TRIAL}"]
        return outcome, outcome.publish[f"trials/{TRIAL}"]

    return redact


def contents(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


@pytest.mark.anyio
async def test_a_key_is_in_no_byte_of_the_copy(redacted, trial_dir):
    before = contents(trial_dir)
    outcome, copy = await redacted()
    for name, content in contents(copy).items():
        assert KEY.encode() not in content and base64.b64encode(KEY.encode()) not in content, name
    assert outcome.redaction["known_value"] >= 6
    assert contents(trial_dir) == before


@pytest.mark.anyio
async def test_addresses_stay_in_logs_and_leave_results(redacted):
    outcome, copy = await redacted()
    found = contents(copy)
    assert b"203.0.113.9" in found["out/agent.log"]
    for name in ("trajectory.json", "score.json", "out/traj.jsonl"):
        assert b"203.0.113" not in found[name], name
    assert outcome.redaction["ip"] == 3


@pytest.mark.anyio
async def test_the_two_address_rules_can_be_turned_around(redacted):
    _, copy = await redacted(ips={"traj": False, "logs": True})
    found = contents(copy)
    assert b"203.0.113" not in found["out/agent.log"]
    assert b"203.0.113.10" in found["out/traj.jsonl"] and b"203.0.113.7" in found["trajectory.json"]


@pytest.mark.anyio
async def test_what_cannot_be_published_is_left_out_and_named(redacted):
    outcome, copy = await redacted()
    assert set(contents(copy)) == {
        "out/agent.log",
        "out/clean.bin",
        "out/traj.jsonl",
        "patch.diff",
        "score.json",
        "trajectory.json",
        "trial.json",
    }
    assert outcome.redaction["refused_files"] == 1
    assert "refused: 'out/core.bin'" in outcome.message
    assert "'out/link' (link), 'out/pipe' (pipe)" in outcome.message
    assert (copy / "out" / "clean.bin").read_bytes() == b"\x7fELF\0\0\xff"


@pytest.mark.anyio
async def test_trial_json_tells_the_truth_about_the_copies(redacted):
    _, copy = await redacted()
    trial = Run(copy.parent.parent).trial(TRIAL)
    assert trial.record.notes == ("note ***",) and trial.info == {"key": "***"}
    assert set(trial.files) == {"patch.diff", "trajectory.json", "score.json"}
    for name, kept in trial.files.items():
        data = (copy / name).read_bytes()
        assert (kept.bytes, kept.sha256) == (len(data), hashlib.sha256(data).hexdigest())


@pytest.mark.anyio
async def test_trial_json_does_not_list_a_file_that_was_refused(redacted, trial_dir):
    (trial_dir / "patch.diff").write_bytes(b"\0" + KEY.encode())
    outcome, copy = await redacted()
    assert "patch.diff" in outcome.outputs["refused"]
    assert set(Run(copy.parent.parent).trial(TRIAL).files) == {"trajectory.json", "score.json"}


@pytest.mark.anyio
async def test_a_trial_json_that_cannot_be_read_blocks_the_trial(redacted, trial_dir, tmp_path):
    (trial_dir / "trial.json").write_text("{")
    with pytest.raises(RecordsDamaged, match=r"trial\.json is no JSON"):
        await redacted()
    assert contents(tmp_path / "work") == {}


@pytest.mark.anyio
async def test_a_secret_without_which_there_is_no_record_blocks_the_trial(redacted, tmp_path):
    with pytest.raises(RecordsDamaged, match=r"trial\.json is no record any more") as error:
        await redacted(secrets=("trial_id",))
    assert "trial_id" not in str(error.value)
    assert contents(tmp_path / "work") == {}


@pytest.mark.anyio
async def test_extra_patterns_are_taken_out_everywhere(redacted, trial_dir):
    (trial_dir / "out" / "agent.log").write_text("logged in at build-17.corp.internal\n")
    outcome, copy = await redacted(extra_patterns=[r"[\w-]{1,60}\.corp\.internal"])
    assert (copy / "out" / "agent.log").read_text() == "logged in at ***\n"
    assert outcome.redaction["extra"] == 1


@pytest.mark.anyio
async def test_the_value_of_a_named_variable_is_taken_out(redacted, trial_dir, monkeypatch):
    monkeypatch.setenv("WEATHER_STATION", "a quite long value")
    (trial_dir / "out" / "agent.log").write_text("it is a quite long value, or not\n")
    _, copy = await redacted(variables=["WEATHER_STATION", "NOT_SET_ANYWHERE"])
    assert (copy / "out" / "agent.log").read_text() == "it is ***, or not\n"


@pytest.mark.anyio
async def test_a_value_that_is_too_short_is_an_error_that_names_the_variable_only(redacted, monkeypatch):
    monkeypatch.setenv("WEATHER_STATION", "rain")
    (said,) = Redact().check(RedactInputs(variables=["WEATHER_STATION"]))
    assert "WEATHER_STATION" in said and "rain" not in said
    with pytest.raises(ValueError, match="WEATHER_STATION is too short"):
        await redacted(variables=["WEATHER_STATION"])


@pytest.mark.anyio
async def test_a_copy_of_a_copy_is_the_same(redacted, trial_dir, context, tmp_path):
    _, copy = await redacted()
    first = contents(copy)
    again = tmp_path / "again" / TRIAL
    copy.rename((again.parent.mkdir(), again)[1])
    ctx = context(Scope.PER_TRIAL, trial_dir=again, subject={"trial_id": TRIAL}, secrets=Secrets([KEY]))
    outcome = await Redact().run(ctx, RedactInputs())
    assert contents(outcome.publish[f"trials/{TRIAL}"]) == first
    assert outcome.redaction == {}


@pytest.mark.anyio
async def test_every_run_makes_another_directory_and_removes_the_last(redacted, tmp_path):
    _, first = await redacted()
    before = contents(first)
    _, second = await redacted()
    assert first != second and not first.exists() and contents(second) == before
    assert len([*(tmp_path / "work").iterdir()]) == 1


@pytest.mark.anyio
async def test_what_is_compressed_is_looked_into(redacted, trial_dir):
    (trial_dir / "out" / "log.gz").write_bytes(gzip.compress(KEY.encode() * 3))
    outcome, copy = await redacted()
    assert "out/log.gz" in outcome.outputs["refused"] or KEY.encode() not in gzip.decompress(
        (copy / "out" / "log.gz").read_bytes()
    )


@pytest.mark.anyio
async def test_what_is_cancelled_leaves_nothing_behind(redacted, monkeypatch, tmp_path):
    with anyio.CancelScope() as scope:
        calls, checked = count(), anyio.from_thread.check_cancelled

        def check() -> None:
            if next(calls) == 3:
                anyio.from_thread.run_sync(scope.cancel)
            checked()

        monkeypatch.setattr(anyio.from_thread, "check_cancelled", check)
        await redacted()
    assert scope.cancelled_caught
    assert contents(tmp_path / "work") == {}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"keys": "optional"}, "no switch"),
        ({"keys": False}, "no switch"),
        ({"key": "required"}, "Extra inputs"),
        ({"ips": True}, "valid dictionary"),
        ({"ips": {"traj": "yes"}}, "valid boolean"),
        ({"ips": {"trajectory": True}}, "Extra inputs"),
        ({"extra_patterns": ["("]}, r"extra_patterns\[0\]: '\(' is no regular expression"),
        ({"extra_patterns": ["a", "b*"]}, r"extra_patterns\[1\]: .*matches an empty text"),
        ({"extra_patterns": ["(a+)+$"]}, "takes far too long"),
        ({"extra_patterns": ["OPS-[0-9]+", "[a-z_]{4,40}"]}, r"'\[a-z_\].*' matches 'agent', a key of every record"),
        ({"variables": ["sk-live-000111222"]}, "names, never the values"),
    ],
)
def test_inputs_that_would_publish_something_are_refused_before_anything_runs(given, message):
    with pytest.raises(ValidationError, match=message) as error:
        RedactInputs.model_validate(given)
    assert "sk-live" not in str(error.value)
