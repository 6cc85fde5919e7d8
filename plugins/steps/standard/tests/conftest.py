from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from agentix.api import Record, Scope, StepContext
from agentix.records import ExperimentManifest
from agentix.records.experiment import AgentRow, CaseUse, StepUse
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
