"""A place with cases, an experiment file and an executor that does what it is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentix.api import Record, load_run
from agentix.plugins.experiments.engine import RunRequest, run_experiment
from agentix.registry import snapshot
from agentix.testing import write_distribution

EXECUTOR = '''
import json
import os
import signal
from pathlib import Path

import anyio
from pydantic import BaseModel, ConfigDict

from agentix.api import Failure, FailureCode, Rollout, Scope, StepOutcome, Usage

HERE = Path(__file__).parent


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Scripted:
    """Does what script.json says of a trial: a list with an entry for each time that it is run, else a reward of 1."""

    scopes = frozenset({Scope.PER_TRIAL})
    Inputs = Nothing
    executes = True

    async def run(self, ctx, inputs):
        work = ctx.work
        trial = work.trial
        with (HERE / "ran.txt").open("a") as file:
            file.write(trial.trial_id + "\\n")
        before = (HERE / "ran.txt").read_text().split().count(trial.trial_id)
        script = json.loads((HERE / "script.json").read_text())
        said = script.get(trial.trial_id) or script.get("*") or [{}]
        todo = said[min(before, len(said)) - 1]
        if "wait_for" in todo:
            while not (HERE / todo["wait_for"]).exists():
                await anyio.sleep(0.01)
        if "raise" in todo:
            raise RuntimeError(todo["raise"])
        result = {"trial_id": trial.trial_id, "index": trial.index, "image_digest": todo.get("image")}
        if "key" in todo:
            (HERE / "key.txt").write_text(str(await work.key()))
        if "tokens" in todo:
            result["usage"] = Usage(input=todo["tokens"], output=todo["tokens"])
        if "cost" in todo:
            result["usage"] = Usage(cost_usd=todo["cost"])
        if "code" in todo:
            result["failure"] = Failure(code=FailureCode(todo["code"]), message=todo.get("message", "no"))
        else:
            result["score"] = {"reward": todo.get("reward", 1.0)}
        (work.directory / "out").mkdir(parents=True, exist_ok=True)
        (work.directory / "out" / "answer.txt").write_text("42")
        return StepOutcome(rollout=Rollout(trial.instance_id, **result))


step = Scripted
'''

DEPOT = '''
from pydantic import BaseModel, ConfigDict, Field

from agentix.api import Receipt, Scope, ShipError, ShipRefused


class DepotInputs(BaseModel):
    model_config = ConfigDict(extra="forbid")

    dest: str = Field(pattern="^[a-z]")
    """Name of a shelf."""
    depth: int = Field(default=1, ge=1)
    tags: dict[str, int] = {}


class Depot:
    """Put it on a shelf."""

    scopes = frozenset({Scope.PER_TRIAL, Scope.PER_EXPERIMENT})
    Inputs = DepotInputs
    host_env = ("DEPOT_TOKEN",)

    def check(self, inputs):
        if inputs.dest == "locked":
            yield "there is no program depot; install it"

    def foresee(self, inputs, *, trials):
        if trials > 1000:
            yield f"{trials} trials do not fit on {inputs.dest}"

    def destination(self, source, inputs, ctx):
        return f"https://me:hunter2@depot/{inputs.dest}/{source.name}"

    async def ship(self, source, inputs, ctx):
        if inputs.dest == "busy":
            raise ShipError("https://me:hunter2@depot/busy is busy")
        if inputs.dest == "closed":
            raise ShipRefused("the depot is closed")
        files = [source] if source.is_file() else [path for path in source.rglob("*") if path.is_file()]
        return Receipt(
            destination=f"https://me:hunter2@depot/{inputs.dest}",
            files=len(files),
            bytes=sum(path.stat().st_size for path in files),
            details={"commit": "abc", "mirrors": ["ssh://git:pass@mirror/x"]},
        )


class Whole(Depot):
    """Put all of it on a shelf."""

    scopes = frozenset({Scope.PER_EXPERIMENT})


class WithPath(Depot):
    """Has an input of the name that is not its own to give."""

    class Inputs(DepotInputs):
        path: str = ""
'''

TASK = """
[task]
name = "lab/{name}"
[agent]
timeout_sec = 60
[verifier]
timeout_sec = 60
"""


@dataclass
class Lab:
    """A directory to experiment in."""

    root: Path

    def case(self, name: str) -> Path:
        """A case whose solution writes a file and whose tests look for it."""
        case = self.root / "cases" / name
        for part in ("environment", "solution", "tests"):
            (case / part).mkdir(parents=True)
        (case / "task.toml").write_text(TASK.format(name=name))
        (case / "instruction.md").write_text("Write hello into hello.txt.\n")
        (case / "environment" / "Dockerfile").write_text("FROM debian:bookworm-slim\nWORKDIR /app\n")
        (case / "solution" / "solve.sh").write_text("#!/bin/bash\necho hello > /app/hello.txt\n")
        (case / "tests" / "test.sh").write_text(
            "#!/bin/bash\ngrep -q hello /app/hello.txt && r=1 || r=0\necho $r > /logs/verifier/reward.txt\n"
        )
        return case

    def file(self, text: str, name: str = "experiment.yaml") -> Path:
        """An experiment file; what it does not say of `kind`, `name` and `cases` is added."""
        body = textwrap.dedent(text)
        head = "kind: Experiment\nname: lab\n" + ("" if "cases:" in body else 'cases: [{path: "cases/*"}]\n')
        if "kind: Experiment" not in body:
            *before, last = body.split("---\n")
            body = "".join(f"---\n{part}" for part in before if part.strip()) + "---\n" + head + last
        path = self.root / name
        path.write_text(body)
        return path

    def script(self, **trials: list[dict[str, Any]]) -> None:
        """What the executor does; `_` in names stands for `-`, and `every` for all others."""
        named = {"*" if k == "every" else k.replace("_", "-"): v for k, v in trials.items()}
        (self.root / "script.json").write_text(json.dumps(named))

    @property
    def executor(self) -> str:
        """The scripted executor, as `--executor` takes it."""
        return f"{self.root}/executor.py:step"

    @property
    def ran(self) -> list[str]:
        """The trials that the executor has run, in order."""
        path = self.root / "ran.txt"
        return path.read_text().split() if path.exists() else []

    def run(self, file: Path, run_id: str = "r", **asked: Any) -> int:
        """One `agentix run` in this process."""
        given = {"executor": self.executor, "quiet": True, **asked}
        return run_experiment(RunRequest(file=file, out=self.root / "runs", run_id=run_id, **given))

    def cli(self, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """One `agentix` command in a process of its own."""
        given = {"timeout": 240, "cwd": self.root, "env": {**os.environ, "TERM": "dumb"}, **more}
        command = [str(Path(sys.executable).parent / "agentix"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, **given)

    def path(self, run_id: str = "r") -> Path:
        """The run's directory."""
        return self.root / "runs" / run_id

    def records(self, run_id: str = "r") -> dict[str, Record]:
        """The run's records by trial."""
        return {record.trial_id: record for record in load_run(self.path(run_id))}

    def manifest(self, run_id: str = "r") -> dict[str, Any]:
        """The run's manifest."""
        found: dict[str, Any] = json.loads((self.path(run_id) / "manifest.json").read_text())
        return found

    def bytes(self, run_id: str = "r") -> dict[str, bytes]:
        """Everything that the run has on the disk."""
        root = self.path(run_id)
        return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab with the cases `a` and `b`."""
    place = Lab(tmp_path)
    for name in ("a", "b"):
        place.case(name)
    (tmp_path / "executor.py").write_text(EXECUTOR)
    place.script()
    monkeypatch.chdir(tmp_path)
    return place


@pytest.fixture
def depot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Transports that are installed: `my-store`, `whole`, `with-path` and `broken`; the version and name of theirs."""
    module, site = "agentix_test_depot", tmp_path / "site"
    targets = {"my-store": "Depot", "whole": "Whole", "with-path": "WithPath", "broken": "Gone"}
    write_distribution(
        site,
        name="lab-depot",
        modules={f"{module}.py": DEPOT},
        entry_points={"agentix.transports": {name: f"{module}:{attr}" for name, attr in targets.items()}},
    )
    monkeypatch.syspath_prepend(str(site))
    snapshot.cache_clear()
    yield "lab-depot 1.0"
    snapshot.cache_clear()
    sys.modules.pop(module, None)
