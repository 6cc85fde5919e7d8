"""The example experiments run as they are, so that they cannot rot."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from agentix.plugins.experiments.documents import load
from agentix.plugins.experiments.documents.schema import schema

BIN = Path(sys.executable).parent
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs/examples/experiments"
COMPLETE = EXAMPLES / "complete.yaml"


@pytest.mark.parametrize("name", ["complete.yaml", "nightly.yaml"])
def test_an_example_loads(name: str) -> None:
    assert load(EXAMPLES / name).experiment.name == name.removesuffix(".yaml")


def test_the_complete_example_names_nearly_every_key() -> None:
    text = COMPLETE.read_text()
    left = {
        f"{kind}.{key}"
        for kind, found in schema()["$defs"].items()
        for key in found["properties"]
        if not re.search(rf"\b{key}\b", text)
    }
    # What only sources have that need a network, and what has another name there.
    assert left <= {
        "CaseSpec.fetch",
        "CaseSpec.ids",
        "LimitsSpec.max_tokens",
        "LimitsSpec.max_turns",
        "LLMSpec.api_key_env",
        "LLMSpec.provider",
        "Matrix.llm_specs",
        "PriceSpec.input",
        "PriceSpec.output",
    }


def test_nothing_in_the_complete_example_is_longer_than_a_line() -> None:
    assert [line for line in COMPLETE.read_text().splitlines() if len(line) > 120] == []


@pytest.mark.real
def test_the_complete_example_runs(shop: Any, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs/examples", tmp_path / "docs/examples")
    done = shop.command(
        *(BIN / "agentix", "run", tmp_path / "docs/examples/experiments/complete.yaml", "--id", "complete"),
        run_dir=shop.path / "runs/complete",
    )
    assert done.code == 0, done.said
    assert "matrix: 24 trials across 6 cases (oracle ran once: deterministic)" in done.said
    rewards = {record["trial_id"]: record["reward"] for record in done.records}
    assert len(rewards) == 24
    assert {name: reward for name, reward in rewards.items() if "oracle" in name} == {
        f"{case}-oracle-1": 1.0
        for case in ("fix-total", "keep-stock", "sealed-summary", "tidy-contacts", "write-greeting", "hello")
    }
    assert rewards["hello-model-writer-small-1"] == 1.0
    assert rewards["keep-stock-script-2"] == 0.75
    dropped = {record["trial_id"] for record in done.records if record.get("dropped")}
    assert dropped == {name for name, reward in rewards.items() if reward > 0.9}
    report = (done.run_dir / "complete.md").read_text()
    assert "did not complete" not in report
    assert not (done.run_dir / "report.md").exists()
    manifest = json.loads((done.run_dir / "manifest.json").read_text())
    assert "check_instruction" in json.dumps(manifest)
    kept = set(rewards) - dropped
    assert {path.name for path in (done.run_dir / "archives").iterdir()} == {f"{name}.tar.gz" for name in kept}
    published = shop.path / "published/complete/complete/dataset"
    assert published.is_dir()
    rows = [json.loads(line) for line in (published / "data/trials.jsonl").read_text().splitlines()]
    assert {row["trial_id"]: row["reward"] for row in rows} == rewards
    assert {row["trial_id"] for row in rows if row["dropped"]} == dropped
    assert all(row["patch"] is None for row in rows if row["dropped"])
    shutil.rmtree(published)
    again = shop.command(
        BIN / "agentix", "ship", "complete", tmp_path / "docs/examples/experiments/complete.yaml", run_dir=done.run_dir
    )
    assert again.code == 0, again.said
    assert published.is_dir()


@pytest.mark.real
def test_a_changed_byte_of_a_pinned_file_refuses_the_example(shop: Any, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs/examples", tmp_path / "docs/examples")
    tool = tmp_path / "docs/examples/experiments/tools/check-instruction.sh"
    tool.write_text(tool.read_text() + "# reviewed by nobody\n")
    done = shop.command(BIN / "agentix", "run", tmp_path / "docs/examples/experiments/complete.yaml")
    assert done.code == 2
    assert "check_instruction.sha256" in done.said
    assert "is pinned to" in done.said
    assert not (shop.path / "runs").exists()


@pytest.mark.real
def test_the_five_lines_run(shop: Any, tmp_path: Path) -> None:
    done = shop.command(
        *(BIN / "agentix", "run", EXAMPLES / "nightly.yaml", "--executor", "local", "--id", "nightly"),
        run_dir=shop.path / "runs/nightly",
    )
    assert done.code == 0, done.said
    assert [record["reward"] for record in done.records] == [1.0] * 5
    assert (done.run_dir / "report.md").exists()


FAKE_HARBOR = f"""#!{sys.executable}
import json, pathlib, sys
value = lambda flag: sys.argv[sys.argv.index(flag) + 1]
trial = pathlib.Path(value("-o")) / value("--job-name") / "one"
trial.mkdir(parents=True)
task = pathlib.Path(value("-p"))
rewards = {{"reward": 1.0 if (task / "solution").exists() else 0.25, "files": len(list(task.iterdir()))}}
used = {{"n_input_tokens": 10, "n_cache_tokens": 4, "n_output_tokens": 3, "cost_usd": 0.01}}
(trial / "result.json").write_text(json.dumps({{"verifier_result": {{"rewards": rewards}}, "agent_result": used}}))
"""


@pytest.mark.real
def test_the_written_adapter_runs_an_experiment_through_harbor(shop: Any) -> None:
    assert shop.command(BIN / "agentix", "new", "adapters").code == 0
    program = shop.script("bin/harbor", "")
    program.write_text(FAKE_HARBOR)
    (shop.path / "e.yaml").write_text(
        f'---\nkind: Experiment\nname: nightly\ncases: [{{path: "{ROOT}/docs/examples/tasks/*"}}]\n'
        "matrix: {agents: [oracle, some-agent-of-harbor], trials: 1}\n"
        "---\nkind: Commands\nharbor: {uses: adapters/harbor.sh}\n"
    )
    done = shop.command(
        *(BIN / "agentix", "run", "e.yaml", "--id", "e"),
        run_dir=shop.path / "runs/e",
        env={"PATH": f"{shop.path / 'bin'}:/usr/bin:/bin"},
    )
    assert done.code == 0, done.said
    rewards = {record["trial_id"]: record["reward"] for record in done.records}
    assert len(rewards) == 10
    assert rewards["fix-total-some-agent-of-harbor-1"] == 1.0
    assert rewards["keep-stock-oracle-1"] == 0.25
    record = next(record for record in done.records if record["trial_id"] == "fix-total-oracle-1")
    assert record["metrics"]["files"] >= 4
    assert record["usage"] == {"input": 6, "output": 3, "cache_read": 4, "cost_usd": 0.01}
