"""The step `ship_hf` of an experiment file, with the real `hf` and a hub on the loopback."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import fake_hub
import pytest

from agentix.api import Scope, Secrets, StepContext
from agentix.plugins.experiments.documents import StepSpec
from agentix.plugins.experiments.steps import StepRefused, resolve_step

pytestmark = [pytest.mark.anyio, pytest.mark.real]
AT = "pipeline.per_experiment[0]"


@pytest.mark.parametrize(
    ("uses", "given"),
    [
        ("ship_hf", {"dest": "org/{{.RunID}}", "path_in_repo": "{{.Experiment}}"}),
        ("ship", {"using": "hf", "dest": "org/{{.RunID}}", "options": {"path_in_repo": "{{.Experiment}}"}}),
    ],
)
async def test_a_step_of_a_file_ships_what_is_published_and_keeps_a_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uses: str, given: dict[str, object]
) -> None:
    beside = Path(sys.executable).parent
    if shutil.which("hf") is None and not (beside / "hf").exists():
        pytest.skip("needs `hf` of huggingface_hub")
    monkeypatch.setenv("PATH", f"{beside}{os.pathsep}{os.environ['PATH']}")
    staging, work = tmp_path / "staging", tmp_path / "work"
    for folder in (staging / "dataset", work):
        folder.mkdir(parents=True)
    (staging / "dataset" / "rows.jsonl").write_text("{}\n")
    resolved = resolve_step(StepSpec.model_validate({"uses": uses, "with": given}), Scope.PER_EXPERIMENT, {}, path=AT)
    assert (resolved.publishes, resolved.ships) == (True, True)
    with fake_hub.running() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        monkeypatch.setenv("HF_TOKEN", hub.token)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
        ctx = StepContext(
            scope=Scope.PER_EXPERIMENT,
            run_id="nightly",
            run_dir=staging,
            work_dir=work,
            experiment="spring",
            path=staging / "dataset",
            secrets=Secrets([hub.token]),
        )
        assert resolved.step is not None
        outcome = await resolved.step.run(ctx, resolved.step.Inputs.model_validate(resolved.inputs(ctx)))
    address = f"{hub.address}/datasets/org/nightly/tree/main/spring"
    assert hub.repos["dataset org/nightly"].paths() == {"spring/rows.jsonl": 3}
    assert outcome.message == f"1 file, 3 bytes to {address}"
    assert json.loads((work / "receipt.json").read_text())["destination"] == address


def test_a_wrong_destination_is_told_before_anything_runs() -> None:
    spec = StepSpec.model_validate({"uses": "ship_hf", "with": {"dest": "name"}})
    with pytest.raises(StepRefused) as caught:
        resolve_step(spec, Scope.PER_EXPERIMENT, {}, path=AT)
    [problem] = caught.value.problems
    assert problem.path == f"{AT}.with.dest"
    assert "write OWNER/NAME" in problem.message
