"""The five tasks of docs/examples, as the demo runs them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

pytestmark = pytest.mark.real

ROOT = Path(__file__).resolve().parents[2]
TASKS = ROOT / "docs/examples/tasks"
NAMES = {"fix-total", "keep-stock", "sealed-summary", "tidy-contacts", "write-greeting"}


def test_the_oracle_solves_all_five(shop: Any) -> None:
    done = shop.run("--agent", "oracle", tasks=TASKS)
    assert done.code == 0, done.said
    assert {case: record["reward"] for case, record in done.by_case.items()} == dict.fromkeys(NAMES, 1.0)
    for name in NAMES:
        assert name in done.out
    assert "runs/run" in done.out


def test_the_scripted_agent_is_measured_on_all_five(shop: Any) -> None:
    agent = f"script={ROOT / 'docs/examples/agents/scripted.sh'}"
    done = shop.run("--agent", "command", "--agent-opt", agent, tasks=TASKS)
    assert done.code == 0, done.said
    rewards = {case: record["reward"] for case, record in done.by_case.items()}
    assert rewards["write-greeting"] == 1.0
    assert rewards["fix-total"] == 0.0
    assert rewards["sealed-summary"] == 0.0
    assert 0 < rewards["tidy-contacts"] < 1
    assert 0 <= rewards["keep-stock"] < 1
    assert done.by_case["sealed-summary"]["ended"] == "agent_error"


def test_doing_nothing_is_measured_and_is_no_error(shop: Any) -> None:
    done = shop.run("--agent", "nop", tasks=TASKS)
    assert done.code == 0, done.said
    assert set(done.by_case) == NAMES
    assert all(record["reward"] < 1 for record in done.records)
    assert not any("failure_code" in record for record in done.records)


def test_each_trial_leaves_its_patch_and_its_logs(shop: Any) -> None:
    done = shop.run("--agent", "oracle", "--instance", "*write-greeting", tasks=TASKS)
    (record,) = done.records
    trial = done.run_dir / "trials" / record["trial_id"]
    assert b"+Hello" in (trial / "patch.diff").read_bytes()
    assert (trial / "trial.json").is_file() and (trial / "score.json").is_file()
    assert [path for path in (trial / "attempts/1").rglob("*") if path.is_file()]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_library_gives_the_same_in_input_order(backend: str) -> None:
    anyio.run(check_library, backend=backend)


async def check_library() -> None:
    from agentix.registry import load
    from agentix.runner import run_rollouts

    part: Callable[..., Any] = load
    rollouts = await run_rollouts(
        dataset=part("dataset", "harbor", {"path": str(TASKS)}, where="dataset"),
        agent=part("agent", "oracle", where="agent"),
        provider=part("provider", "local", where="provider"),
        n_concurrent=2,
    )
    ids = [rollout.instance_id.rpartition("/")[2] for rollout in rollouts]
    assert ids == sorted(NAMES)
    assert [rollout.error for rollout in rollouts] == [None] * 5
    assert sum(rollout.resolved for rollout in rollouts) == 5
