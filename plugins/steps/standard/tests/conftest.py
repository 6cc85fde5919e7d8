from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from dataset_runs import DROPPED, HOSTILE, RECORDS

from agentix.api import Record, Scope, Secrets, StepContext
from agentix.plugins.steps.standard.dataset import Dataset, DatasetInputs
from agentix.records import ExperimentManifest
from agentix.records.experiment import AgentRow, CaseUse, CommandUse, StepUse
from agentix.records.manifest import PluginUse


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


def manifest(**values) -> ExperimentManifest:
    defaults = {
        "run_id": "nightly",
        "experiment": "spring",
        "file": "/home/somebody/spring.yaml",
        "file_sha256": "a" * 64,
        "executor": StepUse(scope="per_trial", label="rollout", uses="rollout", kind="plugin", fingerprint="f" * 64),
        "provider": PluginUse(ref="docker"),
        "cases": (
            CaseUse(
                name="c",
                label="cases/c",
                source="local",
                dataset=PluginUse(ref="harbor"),
                sha256="b" * 64,
                pin={"path": "/home/somebody/cases/c"},
            ),
        ),
        "matrix": (AgentRow(agent="oracle", use=PluginUse(ref="oracle"), trials=1),),
        "planned": 1,
    }
    return ExperimentManifest(**(defaults | values))


@pytest.fixture
def write_run(tmp_path) -> Callable[..., Path]:
    """Writes a run directory."""

    def write(records: Iterable[Record], **values) -> Path:
        run_dir = tmp_path / "nightly"
        run_dir.mkdir()
        (run_dir / "results.jsonl").write_bytes(b"".join(record.to_line() for record in records))
        (run_dir / "manifest.json").write_bytes(manifest(**values).to_bytes())
        return run_dir

    return write


@pytest.fixture
def context(tmp_path) -> Callable[..., StepContext]:
    """Makes the context of a step."""

    def make(scope: Scope, **values) -> StepContext:
        work_dir = tmp_path / "work"
        work_dir.mkdir(exist_ok=True)
        defaults = {"run_id": "nightly", "run_dir": tmp_path / "nightly", "work_dir": work_dir, "experiment": "spring"}
        return StepContext(scope=scope, **(defaults | values))

    return make


@pytest.fixture(scope="session")
def offline_datasets(tmp_path_factory):
    """The library `datasets`, which neither asks the hub for anything nor writes to the home directory."""
    home = tmp_path_factory.mktemp("hf")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HF_HOME", str(home))
        patched.setenv("HF_HUB_OFFLINE", "1")
        patched.setenv("HF_DATASETS_OFFLINE", "1")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            datasets = pytest.importorskip("datasets")
        datasets.disable_progress_bars()
        yield datasets


@pytest.fixture
def make_run(write_run):
    def make(records=RECORDS, **values) -> Path:
        step = StepUse(scope="per_case", label="admission", uses="admission", kind="plugin", fingerprint="f")
        pin = {"repo": "https://example.org/cases.git", "commit": "c" * 40, "path": "cases/a"}
        dataset = PluginUse(ref="harbor")
        defaults = {
            "cases": (
                CaseUse(name="a", label="cases/a", source="git", dataset=dataset, sha256="a" * 64, pin=pin),
                CaseUse(
                    name="h",
                    label=HOSTILE,
                    source="local",
                    dataset=dataset,
                    sha256="b" * 64,
                    pin={"path": "/home/somebody/h"},
                ),
            ),
            "matrix": (
                AgentRow(agent="claude", llm_spec="opus", use=PluginUse(ref="claude-code"), trials=7),
                AgentRow(agent="oracle", use=PluginUse(ref="oracle"), trials=1),
            ),
            "llm_specs": {"opus": {"model": "opus-4", "api": "anthropic", "parameters": {"temperature": 1}}},
            "planned": 8,
            "steps": (step,),
            "gate": ("case cases/a: oracle [1 1] want >= 1.00 -> PASS", f"case {HOSTILE}: nop [1] -> FAIL"),
            "versions": {"agentix-rollouts-core": "0.1.0"},
            "commands": {"harbor": CommandUse(form="uses", sha256="c" * 64)},
            "file": "/home/somebody/spring.yaml",
        }
        root = write_run(records, **(defaults | values))
        for trial_id in {"t1", "t2", *(record.trial_id for record in records)}:
            (root / "trials" / trial_id).mkdir(parents=True)
        first = root / "trials" / "t1"
        (first / "patch.diff").write_bytes(b"--- a\n+++ b\n")
        (first / "trajectory.json").write_text('{"steps": [{"arguments": {"x": 1}}]}')
        (root / "trials" / "t2" / "patch.diff").write_bytes(b"--- a\n+++ \xff\n")
        (root / "archives").mkdir()
        (root / "archives" / "t1.tar.gz").write_bytes(b"")
        return root

    return make


@pytest.fixture
def written(context):
    async def write(*, dropped=(DROPPED,), secrets=(), **given) -> Path:
        ctx = context(
            Scope.PER_EXPERIMENT,
            withheld=lambda: [record.to_data() for record in dropped],
            secrets=Secrets(secrets),
        )
        outcome = await Dataset().run(ctx, DatasetInputs(**given))
        assert outcome.ok
        assert [*outcome.publish] == [given.get("dir", "dataset")]
        return outcome.publish[given.get("dir", "dataset")]

    return write
