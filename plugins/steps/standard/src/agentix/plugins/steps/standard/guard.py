"""The step `guard`: whether a measurement, or a whole run, is what its author wants to keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from agentix.api import RunNumbers, Scope, StepContext, StepOutcome, iter_steps, load_run

_OF_A_TRIAL = ("reward", "steps", "seconds", "tokens", "cost")
_OF_A_RUN = ("trials", "shipped", "mean_reward", "coverage")


class GuardInputs(BaseModel):
    """Bounds, each one inclusive. Those on a trial and those on a run exclude each other."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    min_reward: float | None = None
    max_reward: float | None = None
    min_steps: int | None = Field(default=None, ge=0)
    """Steps of the agent: of its trajectory, else turns as the agent counted them."""
    max_steps: int | None = Field(default=None, ge=0)
    min_seconds: float | None = Field(default=None, ge=0)
    """Of the whole trial."""
    max_seconds: float | None = Field(default=None, ge=0)
    min_tokens: int | None = Field(default=None, ge=0)
    """All tokens, those from and into a cache too."""
    max_tokens: int | None = Field(default=None, ge=0)
    min_cost: float | None = Field(default=None, ge=0)
    """US dollars."""
    max_cost: float | None = Field(default=None, ge=0)
    min_trials: int | None = Field(default=None, ge=0)
    """Measured trials of the run."""
    max_trials: int | None = Field(default=None, ge=0)
    min_shipped: int | None = Field(default=None, ge=0)
    """Measured trials that are not dropped and so may be published."""
    max_shipped: int | None = Field(default=None, ge=0)
    min_mean_reward: float | None = None
    max_mean_reward: float | None = None
    min_coverage: float | None = Field(default=None, ge=0, le=1)
    """Measured trials, as a share of the planned ones."""
    max_coverage: float | None = Field(default=None, ge=0, le=1)
    require_measured: bool = False
    """Whether a trial without a reward is a violation; for a run, any such trial."""

    def bounds(self) -> Iterator[tuple[str, float | None, float | None]]:
        """Metric, minimum and maximum, of every metric that has one of them."""
        for metric in (*_OF_A_TRIAL, *_OF_A_RUN):
            low, high = getattr(self, f"min_{metric}"), getattr(self, f"max_{metric}")
            if low is not None or high is not None:
                yield metric, low, high

    def fit(self, scope: Scope) -> None:
        """Check that every bound means something for a unit.

        Raises:
            ValueError: One does not.
        """
        able = _OF_A_TRIAL if scope is Scope.PER_TRIAL else _OF_A_RUN
        for metric, _, _ in self.bounds():
            if metric not in able:
                raise ValueError(f"a bound on {metric} has no meaning {scope.value}; there are {', '.join(able)}")

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> GuardInputs:
        metrics = [metric for metric, _, _ in self.bounds()]
        if not metrics and not self.require_measured:
            raise ValueError("it asks for nothing: give min_… or max_… of something, or require_measured")
        trial, run = [m for m in metrics if m in _OF_A_TRIAL], [m for m in metrics if m in _OF_A_RUN]
        if trial and run:
            raise ValueError(f"{trial[0]} is of a trial and {run[0]} of the whole run: use two steps")
        if isinstance(info.context, Mapping) and (scope := info.context.get("scope")) is not None:
            self.fit(scope)
        for metric, low, high in self.bounds():
            if low is not None and high is not None and low > high:
                raise ValueError(f"min_{metric} {low:g} is more than max_{metric} {high:g}")
        return self


class Guard:
    """Check a trial, or the run, against bounds.

    What a bound is for and nobody knows does not pass: a trial of unknown cost is no cheap trial. `on_violation` says
    what follows: `fail`, `warn`, or `drop`, which keeps the measurement and publishes nothing of it.
    """

    scopes = frozenset({Scope.PER_TRIAL, Scope.PER_EXPERIMENT})
    Inputs = GuardInputs

    async def run(self, ctx: StepContext, inputs: GuardInputs) -> StepOutcome:
        """Check it.

        Raises:
            ValueError: The bounds are for another scope than it runs in.
        """
        inputs.fit(ctx.scope)
        values, unmeasured = await anyio.to_thread.run_sync(_values, ctx, inputs)
        violations = [*_unmeasured(inputs, unmeasured), *_violations(inputs, values)]
        shown = {metric: values.get(metric) for metric, _, _ in inputs.bounds()}
        return StepOutcome(ok=not violations, message="; ".join(violations), outputs={"values": shown})


def _values(ctx: StepContext, inputs: GuardInputs) -> tuple[Mapping[str, float | None], int]:
    if ctx.scope is Scope.PER_TRIAL:
        wanted = {metric for metric, _, _ in inputs.bounds()}
        values = of_trial(ctx.subject, ctx.trial_dir if "steps" in wanted else None)
        return values, int(ctx.subject.get("reward") is None)
    numbers = RunNumbers.of_run(load_run(ctx.run_dir))
    total = numbers.total
    values = {
        "trials": total.measured,
        "shipped": sum(row.shipped for row in numbers.rows.values()),
        "mean_reward": total.mean_reward,
        "coverage": total.coverage,
    }
    return values, total.n + total.unrun - total.measured


def of_trial(record: Mapping[str, Any], trial_dir: Path | None) -> dict[str, float | None]:
    """The metrics of a trial's record; `None` is unknown."""
    usage: Mapping[str, Any] = record.get("usage") or {}
    kinds = [usage[key] for key in ("input", "output", "cache_read", "cache_write") if usage.get(key) is not None]
    steps = None if trial_dir is None else _steps(trial_dir)
    return {
        "reward": record.get("reward"),
        "steps": usage.get("turns") if steps is None else steps,
        "seconds": record.get("seconds"),
        "tokens": sum(kinds) if kinds else None,
        "cost": usage.get("cost_usd"),
    }


def _steps(trial_dir: Path) -> int | None:
    file = trial_dir / "trajectory.json"
    if not file.is_file():
        return None
    return sum(step.source == "agent" for step in iter_steps(file))


def _unmeasured(inputs: GuardInputs, count: int) -> Iterator[str]:
    if inputs.require_measured and count:
        yield "it has no reward" if count == 1 else f"{count} trials have no reward"


def _violations(inputs: GuardInputs, values: Mapping[str, float | None]) -> Iterator[str]:
    for metric, low, high in inputs.bounds():
        value = values.get(metric)
        if value is None:
            wanted = f">= {low:g}" if low is not None else f"<= {high:g}"
            yield f"{metric} is unknown, want {wanted}"
        elif low is not None and value < low:
            yield f"{metric} {value:g}, want >= {low:g}"
        elif high is not None and value > high:
            yield f"{metric} {value:g}, want <= {high:g}"
