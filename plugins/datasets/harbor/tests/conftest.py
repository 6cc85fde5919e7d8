"""A provider, tasks and runs for the tests that run tasks for real, on the provider `local`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agentix.api import AgentResult, Rollout, RolloutContext, Sandbox, run_rollouts
from agentix.plugins.datasets.harbor import HarborConfig, HarborDataset

GREETING_TEST = """#!/bin/sh
grep -qx hello /app/greeting && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
"""


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def provider() -> AsyncIterator[Any]:
    local = pytest.importorskip("agentix.providers.local", reason="the provider local is not installed")
    async with local.LocalProvider() as provider:
        yield provider


class Oracle:
    deterministic = True

    async def solve(
        self, sandbox: Sandbox, instance: dict[str, Any], *, model: str | None, context: RolloutContext
    ) -> AgentResult:
        return await context.dataset.reference(sandbox, instance)  # type: ignore[attr-defined]


@pytest.fixture
def oracle() -> Oracle:
    return Oracle()


class Shell:
    """Runs a script in the sandbox, as the user that the task names."""

    def __init__(self, script: str = "") -> None:
        self.script = script
        self.requests: list[str] = []

    async def solve(
        self, sandbox: Sandbox, instance: dict[str, Any], *, model: str | None, context: RolloutContext
    ) -> AgentResult:
        self.requests.append(context.instruction)
        result = await sandbox.exec(self.script, user=context.user)
        return AgentResult(exit_code=result.exit_code)


MakeTask = Callable[..., Path]
Run = Callable[..., Any]


@pytest.fixture
def task(tmp_path: Path) -> MakeTask:
    """Writes a task: its task.toml, its test.sh, and any other files by their paths."""

    def make(toml: str = "", test: str = GREETING_TEST, *, name: str = "task", **files: str | bytes) -> Path:
        directory = tmp_path / "tasks" / name
        content: dict[str, str | bytes] = {
            "task.toml": toml if "network_mode" in toml else f'{toml}\n[environment]\nnetwork_mode = "no-network"\n',
            "instruction.md": "Say hello.\n",
            "environment/Dockerfile": "FROM debian\nWORKDIR /app\n",
            "tests/test.sh": test,
            "solution/solve.sh": "#!/bin/sh\necho hello > /app/greeting\n",
            **files,
        }
        for path, text in content.items():
            place = directory / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text if isinstance(text, bytes) else text.encode())
        return directory

    return make


@pytest.fixture
def run(provider: Any, tmp_path: Path) -> Run:
    async def go(path: Path, agent: object = None, *, keep: bool = True, **options: Any) -> Rollout:
        config = {"path": str(path), **options.pop("dataset", {})}
        (rollout,) = await run_rollouts(
            dataset=HarborDataset(HarborConfig.model_validate(config)),
            agent=agent or Oracle(),
            provider=provider,
            trial_dir=(lambda trial: tmp_path / "trial") if keep else None,
            **options,
        )
        return rollout

    return go


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Where the first attempt's files are kept."""
    return tmp_path / "trial" / "attempts" / "1"


@pytest.fixture
def shell() -> type[Shell]:
    return Shell
