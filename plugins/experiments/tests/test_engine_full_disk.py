"""A disk that refuses at any moment: the run ends with that as its reason, and goes on from there later."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from agentix.plugins.experiments.gate.cache import VerdictCache
from agentix.records import experiment_writer

FILE = """
---
kind: Commands
look: {script: "echo fine"}
---
matrix: {agents: [x]}
pipeline: {per_case: [{uses: look}]}
"""


@pytest.mark.parametrize("allowed", [1, 2])
def test_a_manifest_that_cannot_be_written_ends_the_run_and_no_result_is_lost(
    lab, monkeypatch: pytest.MonkeyPatch, capfd, allowed: int
) -> None:
    real, written = experiment_writer.write_file, []

    def full(path: Path, data: bytes) -> None:
        written.append(path)
        if len(written) > allowed:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(path, data)

    monkeypatch.setattr(experiment_writer, "write_file", full)
    lab.script(every=[{"image": "sha256:1"}])
    file = lab.file("matrix: {agents: [x]}\n")
    try:
        code = lab.run(file)
    finally:
        monkeypatch.setattr(experiment_writer, "write_file", real)
    out, err = capfd.readouterr()
    assert code == 1
    assert "No space left on device" in out + err
    assert "Traceback" not in out + err
    assert lab.run(file) == 0
    assert sorted(lab.records()) == ["a-x-1", "b-x-1"]
    assert sorted(lab.ran) == ["a-x-1", "b-x-1"]
    assert lab.manifest()["incomplete"] is None


def test_verdicts_that_cannot_be_kept_cost_nothing_but_their_use(lab, monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    def full(self: VerdictCache, verdicts: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(self.path))

    monkeypatch.setattr(VerdictCache, "add", full)
    assert lab.run(lab.file(FILE), quiet=False) == 0
    assert "the verdict could not be kept in" in capfd.readouterr().out
    assert len(lab.records()) == 2


def test_a_check_that_has_nowhere_to_write_is_one_clear_error(lab) -> None:
    from agentix.api import HostError

    lab.path().mkdir(parents=True)
    (lab.path() / "gate").write_text("in the way")
    with pytest.raises(HostError, match=r"could not be checked: .*/gate"):
        lab.run(lab.file(FILE))


def test_verdicts_are_not_waited_for_where_no_file_holds_them(lab, capfd) -> None:
    lab.path().parent.mkdir()
    os.mkfifo(lab.root / "runs/gate-cache.json")
    assert lab.run(lab.file(FILE)) == 0
    assert (lab.root / "runs/gate-cache.json").is_file()
