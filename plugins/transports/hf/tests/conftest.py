"""A hub on the loopback and the real `hf` that talks to it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fake_hub
import pytest

from agentix.api import Receipt, Scope, Secrets, StepContext
from agentix.plugins.transports.hf import HfTransport


class Patient(HfTransport):
    """Waits without taking any time."""

    def __init__(self, waits: list[float]) -> None:
        self._waits = waits

    async def _sleep(self, seconds: float) -> None:
        self._waits.append(seconds)


@dataclass
class Desk:
    """Ships with the real `hf`; what was told and waited is kept, and no wait takes any time."""

    root: Path
    hub: fake_hub.Hub
    said: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    @property
    def source(self) -> Path:
        return self.root / "run" / "dataset"

    def context(self, **more: Any) -> StepContext:
        given: dict[str, Any] = {
            "scope": Scope.PER_EXPERIMENT,
            "run_id": "r1",
            "run_dir": self.root / "run",
            "work_dir": self.root / "work",
            "experiment": "my-exp",
            "secrets": Secrets([self.hub.token]),
            "say": self.said.append,
        }
        return StepContext(**given | more)

    async def ship(self, source: Path | None = None, *, ctx: StepContext | None = None, **inputs: Any) -> Receipt:
        transport = Patient(self.waits)
        given = transport.Inputs.model_validate({"dest": "org/name", **inputs})
        return await transport.ship(source or self.source, given, ctx or self.context())

    @property
    def repo(self) -> fake_hub.Repo:
        return self.hub.repos["dataset org/name"]


@pytest.fixture
def hub() -> Iterator[fake_hub.Hub]:
    with fake_hub.running() as hub:
        yield hub


@pytest.fixture
def real_hf(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Path(sys.executable).parent
    if shutil.which("hf") is None and not (beside / "hf").exists():
        pytest.skip("needs `hf` of huggingface_hub")
    monkeypatch.setenv("PATH", f"{beside}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def desk(tmp_path: Path, hub: fake_hub.Hub, real_hf: None, monkeypatch: pytest.MonkeyPatch) -> Desk:
    for name in [name for name in os.environ if name.startswith("HF_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_ENDPOINT", hub.address)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    desk = Desk(root=tmp_path, hub=hub)
    (tmp_path / "work").mkdir()
    (desk.source / "data").mkdir(parents=True)
    (desk.source / "README.md").write_text("---\nlicense: mit\n---\n")
    (desk.source / "data" / "rows.jsonl").write_text('{"reward": 1.0}\n')
    (desk.source / "data" / "all.tar").write_bytes(b"archive" * 1000)
    return desk
