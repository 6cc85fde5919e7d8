"""The whole tree put together: all that may be published, in its order, and nothing that may not."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from published import SHIP, names, write

from agentix.api import FailureCode, Record, RunError, Secrets, load_run
from agentix.cli.api import AgentRow, ExperimentManifest, PluginUse, Session, StepFailure, StepUse
from agentix.plugins.experiments.publishing import Assembled, Assembly, Cleaner, Staging

SECRET = "a-secret-of-this-run"


def manifest() -> ExperimentManifest:
    return ExperimentManifest(
        run_id="r",
        experiment="lab",
        file="e.yaml",
        file_sha256="0",
        executor=StepUse(scope="per_trial", label="x", uses="x", kind="plugin", fingerprint="0"),
        matrix=(AgentRow(agent="x", use=PluginUse.of("x"), trials=1),),
        gate=(f"it said {SECRET}",),
        sessions=(Session(),),
    )


class Place:
    """A run's directory, and whoever redacts its trials."""

    def __init__(self, root: Path, records: list[Record]) -> None:
        self.root = root
        self.redacted: list[str] = []
        self.broken: set[str] = set()
        self.failed: dict[str, str] = {}
        self.keys: dict[str, str] = {}
        self.secrets = Secrets([SECRET])
        (root / "experiment.yaml").write_text(f"# {SECRET}\nkind: Experiment\n")
        (root / "report.md").write_text(f"It was {SECRET}.\n")
        (root / "notes.txt").write_text("nobody publishes this")
        self.write(records)

    def write(self, records: list[Record]) -> None:
        (self.root / "results.jsonl").write_bytes(b"".join(record.to_line() for record in records))
        for record in records:
            place = self.root / "trials" / record.trial_id
            place.mkdir(parents=True, exist_ok=True)
            if not (place / "trial.json").exists():
                (place / "trial.json").write_text(json.dumps({"record": record.to_data()}))

    async def assemble(self, *, by: str = "one", before: Callable[[], Any] = lambda: None) -> Assembled:
        with Staging(self.root, secrets=self.secrets) as staging:

            async def restage(record: Record) -> str | None:
                before()
                await anyio.lowlevel.checkpoint()
                self.redacted.append(record.trial_id)
                if record.trial_id in self.broken:
                    return "it is broken"
                work = self.root / "trials" / record.trial_id / "steps/redact"
                copy = work / "copy"
                copy.mkdir(parents=True)
                (copy / "trial.json").write_text("{}")
                publish = {f"trials/{record.trial_id}": copy}
                staging.accept_redacted(record.trial_id, publish, work_dir=work, by=by)
                return None

            return await Assembly(
                staging=staging,
                cleaner=Cleaner(self.secrets),
                by=by,
                restage=restage,
                keys=self.keys,
                failed=self.failed,
                reports=frozenset({"report.md", "report.json"}),
                width=4,
                say=lambda text: None,
            ).run(manifest())

    @property
    def tree(self) -> Path:
        return self.root / ".staging"


def record(name: str, **more: Any) -> Record:
    return Record(trial_id=name, case="c", agent="x", reward=1.0, **more)


@pytest.mark.anyio
async def test_all_that_may_go_is_there_in_its_order_and_redacted(tmp_path: Path) -> None:
    failed = (StepFailure(step="guard", code=FailureCode.STEP_FAILED, message=f"not with {SECRET}"),)
    place = Place(tmp_path, [record("c"), record("d", dropped=True), record("a", step_failures=failed), record("b")])
    found = await place.assemble()
    assert (found.published, found.withheld.dropped, found.changed) == (3, 1, True)
    assert [r.trial_id for r in load_run(place.tree)] == ["c", "a", "b"]
    assert names(place.tree) == [
        "experiment.yaml", "manifest.json", "report.md", "results.jsonl",
        "trials/a/trial.json", "trials/b/trial.json", "trials/c/trial.json",
    ]  # fmt: skip
    for name in names(place.tree):
        assert SECRET not in (place.tree / name).read_text()
    assert load_run(place.tree).records[1].step_failures[0].message == "not with ***"
    again = await place.assemble()
    assert not again.changed and sorted(place.redacted) == ["a", "b", "c"]


@pytest.mark.anyio
async def test_what_no_longer_belongs_goes_and_what_is_out_of_date_is_redacted_again(tmp_path: Path) -> None:
    place = Place(tmp_path, [record("a"), record("b"), record("c")])
    await place.assemble()
    place.redacted.clear()
    place.write([record("a", dropped=True), record("b"), record("c")])
    (place.tree / "stray").mkdir()
    (place.tree / "stray.txt").write_text("x")
    (place.tree / "trials/stray").mkdir()
    (place.tree / "trials/c/more").write_text("x")
    (place.root / "report.md").unlink()
    found = await place.assemble()
    assert found.changed and place.redacted == ["c"]
    assert names(place.tree) == [
        "experiment.yaml", "manifest.json", "results.jsonl", "trials/b/trial.json", "trials/c/trial.json"
    ]  # fmt: skip
    assert not (place.tree / "stray").exists() and not (place.tree / "trials/stray").exists()
    # Another way to redact makes all of it anew.
    await place.assemble(by="another")
    assert sorted(place.redacted) == ["b", "c", "c"]


@pytest.mark.anyio
async def test_what_cannot_be_redacted_is_withheld_and_not_tried_twice_in_a_session(tmp_path: Path) -> None:
    place = Place(tmp_path, [record("a"), record("b", llm_spec="m"), record("c", llm_spec="m", dropped=True)])
    place.broken, place.keys = {"a"}, {"m": "its key is not known: THE_KEY is not set"}
    for _ in range(2):
        found = await place.assemble()
        assert found.published == 0 and found.withheld.count == 3
        assert found.withheld.line == "3 trials are withheld: 1 dropped, 2 could not be redacted"
        assert any("THE_KEY" in line for line in found.withheld.reasons())
    assert place.redacted == ["a"]
    place.failed.clear()
    place.broken.clear()
    place.keys.clear()
    assert (await place.assemble()).published == 2


@pytest.mark.anyio
async def test_a_cancelled_assembly_leaves_a_tree_that_is_made_whole_the_next_time(tmp_path: Path) -> None:
    place = Place(tmp_path, [record(f"t{number}") for number in range(1200)])
    with anyio.CancelScope() as scope:
        await place.assemble(before=lambda: scope.cancel() if len(place.redacted) == 300 else None)
    assert 300 <= len(place.redacted) < 320
    found = await place.assemble()
    assert found.published == 1200 and len(place.redacted) < 1220
    assert len(list((place.tree / "trials").iterdir())) == 1200


def test_a_full_disk_while_the_tree_is_put_together_ships_nothing(lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    file = write(lab, SHIP)
    with monkeypatch.context() as patch:
        patch.setattr(Cleaner, "record", full)
        assert lab.run(file) == 1
    assert "No space left on device" in lab.manifest()["incomplete"]
    assert not (lab.root / "sent").exists()
    assert lab.run(file) == 0
    assert len(load_run(lab.root / "sent/x/run").records) == 2


@pytest.mark.anyio
@pytest.mark.parametrize(("secret", "what"), [("file_sha256", "manifest"), ("trial_id", "record")])
async def test_what_makes_no_sense_without_its_secrets_is_an_error_that_does_not_tell_them(
    secret: str, what: str, tmp_path: Path
) -> None:
    place = Place(tmp_path, [Record(trial_id="a-1", case="a", agent="x", reward=1.0)])
    place.secrets.add(secret)
    with pytest.raises(RunError, match=f"{what}.* cannot be published") as error:
        await place.assemble()
    assert secret not in str(error.value)
