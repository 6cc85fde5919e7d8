"""Makes one result of the results of a task's steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentix.plugins.datasets.harbor.reward import choose
from agentix.plugins.datasets.harbor.schema import Step


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """What one step gave."""

    name: str
    ended: str | None
    """How the agent ended in it."""
    score: dict[str, Any]

    @property
    def reward(self) -> float:
        """The step's reward."""
        return float(self.score["reward"])

    @property
    def numbers(self) -> dict[str, float]:
        """Every number that the step gave, by its name; a bare number is called `reward`."""
        return dict(self.score.get("metrics") or {"reward": self.reward})


def missed_minimum(step: Step, result: StepResult) -> str | None:
    """Which minimum of the step its result misses; `None` where the next step may follow.

    A number is the least reward; a table gives the least value of each key, and a key that is missing misses it.
    """
    if step.min_reward is None:
        return None
    if isinstance(step.min_reward, dict):
        for key, least in step.min_reward.items():
            value = result.numbers.get(key)
            if value is None or value < least:
                return f"{key} is {'missing' if value is None else f'{value:g}'}, below {least:g}"
        return None
    return f"the reward is {result.reward:g}, below {step.min_reward:g}" if result.reward < step.min_reward else None


def combine(results: Sequence[StepResult], *, strategy: str, key: str | None) -> dict[str, Any]:
    """The result of a multi-step task from the steps that ran.

    Args:
        results: At least one.
        strategy: `final` takes the last step's result; `mean` takes the mean of each number over the steps, where
            a number that a step did not give counts as 0.
        key: The key that the user chose as the reward.
    """
    steps = [_summary(result) for result in results]
    if strategy == "final":
        return {**results[-1].score, "strategy": strategy, "steps": steps}
    names = list(dict.fromkeys(name for result in results for name in result.numbers))
    count = len(results)
    means = {name: math.fsum(r.numbers.get(name, 0.0) / count for r in results) for name in names}
    if key is None or key in means:
        reward, rule = choose(means, key=key)
    else:
        reward, rule = math.fsum(result.reward / count for result in results), "mean of the steps' rewards"
    score: dict[str, Any] = {"reward": reward, "reward_rule": rule, "strategy": strategy, "steps": steps}
    return score if names == ["reward"] else {**score, "metrics": means}


def _summary(result: StepResult) -> dict[str, Any]:
    summary: dict[str, Any] = {"name": result.name, **result.score}
    return summary if result.ended is None else {**summary, "ended": result.ended}
