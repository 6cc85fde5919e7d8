"""An experiment with every part, from cases in a git repository to a dataset on a hub: nothing of a key gets there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake_hub
import pytest

BIN = Path(sys.executable).parent
KEY = "sk-ant-canary-0123456789abcdef"

EXPERIMENT = """\
---
kind: Commands
timeout: 30m
max_attempts: 2
source_git:
  script: |
    set -euo pipefail
    git clone --quiet --depth 1 --branch "${GIT_REF}" "${GIT_REPO}" "${LOCAL_PATH}"
ship:
  run: ["rclone", "copy", "--", "{{.LocalPath}}", "onedrive:{{.Key}}"]
# an agent is just another command; it gets LLM_BASE_URL / LLM_MODEL / LLM_API_KEY in its environment
agent_claude-code:
  run: ["@/agents/claude-code/run.sh"]
harbor: {uses: adapters/harbor.py}
---
kind: LLMSpec
name: opus-prod
base_url: https://api.anthropic.com
model: claude-opus-4-7
api_key_env: ANTHROPIC_API_KEY # the name of a variable, never the value
---
kind: Experiment
name: spring-cve
case_defaults: # cases say where they are
  source: git # git | local
  repo: @/remote.git
  ref: main # recorded as the commit it resolved to
cases:
  - path: spring/CVE-2026-1234
  - path: apache/CVE-2026-5678
    ref: v2.1
matrix:
  agents:
    - name: claude-code
      llm_spec: opus-prod
    - name: oracle # builtin: no LLM, no cartesian product
    - name: nop
  llm_specs: [opus-prod]
  trials: 10 # rollouts per *stochastic* agent
concurrency: 4
max_attempts: 2 # retries only what could plausibly differ
pipeline:
  concurrency: 16 # how wide post-processing runs
  per_case: # once per case
    - uses: admission # is this case even measurable?
      with: {oracle_min_reward: 1.0, nop_max_reward: 0.0, trials: 2}
  per_trial: # once per trial
    - uses: harbor # first step runs the trial
    - uses: redact
      with: {keys: required, ips: {traj: true, logs: false}}
    - uses: guard # keep only what is worth publishing
      name: only-hard
      with: {max_reward: 0.6, min_steps: 30}
      on_violation: drop
    - uses: archive
      with: {format: tar}
  per_experiment: # once, when the batch is done
    - uses: dataset # one row per trial + a card
SHIP"""

TO_THE_HUB = """\
    - uses: ship
      with: {using: ship_hf, path: dataset, dest: my-org/rollout-libaom}
"""

TO_A_COMMAND = """\
    - uses: ship
      with: {using: ship, path: dataset}
"""

MAPPED = """
kind: Experiment
name: trails
cases: [{path: case}]
matrix: {agents: [oracle]}
pipeline:
  per_experiment:
    ship:
      using: ship
      dest: "test/cases/jobs/{{.Experiment}}/{{.RunID}}"
---
kind: Commands
harbor: {uses: adapters/harbor.py}
ship: {script: 'mkdir -p "$DEST" && cp -R "$RUN_DIR/." "$DEST"'}
"""

HARBOR = f"""#!{sys.executable}
import json, os
from pathlib import Path

out = Path(os.environ["OUT_DIR"])
agent = os.environ["AGENT_NAME"]
rewards = {{"oracle": 1.0, "nop": 0.0}}
number = int(os.environ["TRIAL_ID"].rpartition("-")[2])
(out / "reward.txt").write_text(str(rewards.get(agent, number / 10)))
if agent == "claude-code":
    said = "my key is " + os.environ["LLM_API_KEY"] + " and I am at 203.0.113.7"
    steps = [{{"step_id": n, "source": "agent", "message": said}} for n in range(1, 32)]
    trajectory = {{"schema_version": "ATIF-v1.4", "session_id": "s", "agent": {{"name": agent, "version": "2"}}}}
    (out / "trajectory.json").write_text(json.dumps({{**trajectory, "steps": steps}}))
    (out / "agent.log").write_text(said + ", version 1.2.3.4\\n")
    (out / ("of-" + os.environ["LLM_API_KEY"] + ".txt")).write_text("named after it")
"""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[fake_hub.Hub]:
    if not (BIN / "hf").exists() and shutil.which("hf") is None:
        pytest.skip("needs `hf` of huggingface_hub")
    with fake_hub.running() as hub:
        hub.owners.add("my-org")
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        monkeypatch.setenv("HF_TOKEN", hub.token)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf-home"))
        yield hub


@pytest.fixture
def place(shop: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The workshop with the repository of the cases, the adapter and the agent."""
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    root = shop.path
    shop.script("agents/claude-code/run.sh", "true")
    adapter = shop.script("adapters/harbor.py", "")
    adapter.write_text(HARBOR)
    checkout = root / "checkout"
    for number, path in enumerate(("spring/CVE-2026-1234", "apache/CVE-2026-5678")):
        shutil.copytree(shop.task(f"case-{number}"), checkout / path)
    shutil.copytree(shop.task("case"), root / "case")

    def git(*words: str) -> None:
        author = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        subprocess.run(["git", *author, *words], cwd=checkout, check=True, capture_output=True)

    git("init", "--quiet", "--initial-branch=main")
    git("add", "--all")
    git("commit", "--quiet", "--message=cases")
    git("tag", "v2.1")
    git("clone", "--quiet", "--bare", ".", str(root / "remote.git"))
    return shop


def hides(directory: Path) -> None:
    """Nothing below a directory has the key in it or in its name, nor an address that a trajectory held."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert "canary" not in str(path.relative_to(directory))
        assert b"canary-0123456789" not in path.read_bytes(), path
        assert path.name != "trajectory.json" or b"203.0.113.7" not in path.read_bytes()


def write(place: Any, ship: str) -> Path:
    file: Path = place.path / "experiment.yaml"
    file.write_text(EXPERIMENT.replace("SHIP", ship).replace("@", str(place.path)))
    return file


@pytest.mark.real
def test_an_experiment_with_every_part_ends_on_the_hub(place: Any, hub: fake_hub.Hub) -> None:
    run = place.path / "runs/r"
    command = (BIN / "agentix", "run", write(place, TO_THE_HUB), "--id", "r")
    done = place.command(*command, run_dir=run)
    assert done.code == 0, done.said
    assert "matrix: 24 trials across 2 cases (oracle, nop ran once: deterministic)" in done.said
    assert KEY not in done.said
    records = {record["trial_id"]: record for record in done.records}
    published = {name for name, record in records.items() if not record.get("dropped")}
    stem = "claude-code-opus-prod"
    assert published == {f"{c}-{stem}-{n}" for c in ("CVE-2026-1234", "CVE-2026-5678") for n in range(1, 7)}
    assert {records[name]["redaction"]["ip"] for name in published} == {62}  # two copies of 31 steps
    hides(run / ".staging")
    hides(run / "dataset")
    hides(run / "archives")
    log = next((run / ".staging/trials").glob(f"*{stem}-1/out/agent.log")).read_text()
    assert "203.0.113.7, version 1.2.3.4" in log
    rows = [json.loads(line) for line in (run / "dataset/data/trials.jsonl").read_text().splitlines()]
    assert {row["trial_id"] for row in rows} == published
    assert {path.name for path in (run / "archives").iterdir()} == {f"{name}.tar" for name in published}
    repo = hub.repos["dataset my-org/rollout-libaom"]
    sizes = {str(p.relative_to(run / "dataset")): p.stat().st_size for p in (run / "dataset").rglob("*") if p.is_file()}
    assert repo.paths() == sizes
    commits = hub.count("commit")
    assert place.command(*command, run_dir=run).code == 0
    again = place.command(BIN / "agentix", "ship", "r", place.path / "experiment.yaml", run_dir=run)
    assert again.code == 0, again.said
    assert hub.count("commit") == commits


@pytest.mark.real
def test_a_command_ships_to_a_remote_of_rclone(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RCLONE_CONFIG_ONEDRIVE_TYPE", "alias")
    monkeypatch.setenv("RCLONE_CONFIG_ONEDRIVE_REMOTE", str(place.path / "drive"))
    done = place.command(BIN / "agentix", "run", write(place, TO_A_COMMAND), "--id", "r")
    assert done.code == 0, done.said
    there = place.path / "drive/spring-cve/r"
    assert (there / "README.md").is_file() and (there / "data/trials.jsonl").is_file()
    hides(there)


@pytest.mark.real
def test_the_mapping_form_ships_the_whole_run_where_a_template_says(place: Any) -> None:
    (place.path / "trails.yaml").write_text(MAPPED)
    done = place.command(BIN / "agentix", "run", "trails.yaml", "--id", "first")
    assert done.code == 0, done.said
    there = place.path / "test/cases/jobs/trails/first"
    assert len((there / "results.jsonl").read_text().splitlines()) == 1
    assert (there / "trials/case-oracle-1/trial.json").is_file()
    assert sorted(path.name for path in there.iterdir()) == [
        "experiment.yaml",
        "manifest.json",
        "results.jsonl",
        "trials",
    ]
