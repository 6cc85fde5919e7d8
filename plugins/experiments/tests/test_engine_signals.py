"""SIGINT and SIGTERM: what runs is ended, what was measured is kept, and the report is written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from killing import is_there

SLOW = """
---
kind: Commands
slow:
  script: |
    echo $$ > "$OUT_DIR/pid.new" && mv "$OUT_DIR/pid.new" "$OUT_DIR/pid"
    case $TRIAL_ID in a-*) echo 1 > "$OUT_DIR/reward.txt"; exit 0;; esac
    echo up > {root}/up
    exec sleep 300
---
matrix: {{agents: [someone], trials: 2}}
concurrency: 3
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_what_runs_and_the_run_goes_on_later(lab, number: int, code: int) -> None:
    os.mkfifo(lab.root / "up")
    file = lab.file(SLOW.format(root=lab.root))
    arguments = ["run", str(file), "--id", "r", "--executor", "slow", "-v"]
    program = "import sys; from agentix.cli.app import main; sys.exit(main('agentix', sys.argv[1:]))"
    command = [sys.executable, "-c", program, *arguments]
    run = subprocess.Popen(command, cwd=lab.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    # Reading ends when a trial of b writes, which it does once those of a have ended or have their slots.
    assert "up" in (lab.root / "up").read_text()
    assert any(is_there(int(pid.read_text()), lab.root) for pid in lab.path().glob("trials/b-*/out/pid"))
    run.send_signal(number)
    said, _ = run.communicate(timeout=240)
    assert run.returncode == code, said
    assert f"{signal.Signals(number).name}: no new trials" in said
    assert f"resume with: agentix run {file} --id r" in said
    name = signal.Signals(number).name
    assert f"**This run did not complete.** interrupted by {name}" in (lab.path() / "report.md").read_text()
    assert lab.manifest()["incomplete"] == f"interrupted by {name}"
    for pid in lab.path().glob("trials/*/out/pid"):
        assert not is_there(int(pid.read_text()), lab.root)
    (lab.root / "up").unlink()
    before = set(lab.records())
    assert not any(name.startswith("b-") for name in before)
    again = lab.file(SLOW.format(root=lab.root).replace("exec sleep 300", "echo 1 > $OUT_DIR/reward.txt"))
    assert lab.run(again, executor="slow", force=True) == 0
    assert len(lab.records()) == 4
    assert "did not complete" not in (lab.path() / "report.md").read_text()


def test_a_full_disk_stops_the_run_and_loses_nothing(lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentix.records import commit

    real = commit.write_files

    def full(files):
        if any("b-someone-1" in str(path) for path, _ in files):
            raise OSError(28, "No space left on device")
        real(files)

    monkeypatch.setattr(commit, "write_files", full)
    file = lab.file("matrix: {agents: [someone], trials: 2}\n")
    assert lab.run(file) == 1
    assert list(lab.records()) == ["a-someone-1", "a-someone-2"]
    assert "could not be kept" in lab.manifest()["incomplete"]
    monkeypatch.setattr(commit, "write_files", real)
    assert lab.run(file) == 0
    assert lab.ran.count("a-someone-1") == 1
    assert len(lab.records()) == 4


def test_two_processes_with_one_id_do_not_mix(lab) -> None:
    os.mkfifo(lab.root / "up")
    file = lab.file(SLOW.format(root=lab.root))
    program = "import sys; from agentix.cli.app import main; sys.exit(main('agentix', sys.argv[1:]))"
    command = [sys.executable, "-c", program, "run", str(file), "--id", "r", "--executor", "slow"]
    first = subprocess.Popen(command, cwd=lab.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert "up" in Path(lab.root / "up").read_text()
        second = subprocess.run(command, cwd=lab.root, capture_output=True, text=True, timeout=240, check=False)
        assert second.returncode == 2
        assert f"another run writes here (process {first.pid} on" in second.stderr
    finally:
        first.send_signal(signal.SIGTERM)
        assert first.wait(240) == 143
