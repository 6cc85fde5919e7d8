"""The step `admission`: whether a case can be measured at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agentix.api import Rollout, Scope, StepContext, StepOutcome, TrialError

CODE = "CASE_NOT_ADMITTED"
ORACLE, NOP = "oracle", "nop"


class AdmissionInputs(BaseModel):
    """What a case has to show before agents are measured on it."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    require: Literal["admitted", "any"] = "admitted"
    """`any` lets every case pass and keeps the verdict as a remark."""
    oracle_min_reward: float = 1.0
    """What every trial of the reference solution has to get."""
    nop_max_reward: float = 0.0
    """What a trial that does nothing may get."""
    trials: int = Field(default=2, ge=1)
    """How often each of the two is run: once says nothing about a case that is only sometimes solvable."""


class ProbeFailed(TrialError):
    """A probe could not be run, so there is no verdict."""

    code = "ENV_FAILED"


class Admission:
    """Refuse a case that the reference solution does not solve, or that doing nothing solves.

    Both run through the run's own executor: passing also shows that the whole chain works on this machine. A probe
    that cannot run is an error and not a verdict.
    """

    scopes = frozenset({Scope.PER_CASE})
    Inputs = AdmissionInputs

    async def run(self, ctx: StepContext, inputs: AdmissionInputs) -> StepOutcome:
        """Run the probes.

        Raises:
            ProbeFailed: One of them could not be measured.
        """
        if ctx.probe is None or ctx.case is None:
            raise ProbeFailed("there is nothing here that could run a probe")
        lines, passed = [], True
        for agent, sign, bound in ((ORACLE, ">=", inputs.oracle_min_reward), (NOP, "<=", inputs.nop_max_reward)):
            indices = range(1, inputs.trials + 1)
            rewards = [_reward(await ctx.probe(agent, index=index), agent, index) for index in indices]
            good = all(reward >= bound if sign == ">=" else reward <= bound for reward in rewards)
            passed = passed and good
            lines.append(f"{agent} {_listed(rewards)} want {sign} {bound:.2f} -> {'PASS' if good else 'FAIL'}")
        ok = passed or inputs.require == "any"
        message = "; ".join(lines)
        return StepOutcome(
            ok=ok,
            message=message if passed else f"{CODE}: {message}",
            outputs={"admitted": passed, "lines": lines, "trials": inputs.trials},
        )


def _reward(rollout: Rollout, agent: str, index: int) -> float:
    reward = rollout.reward
    if reward is not None and math.isfinite(reward):
        return float(reward)
    failure = rollout.failure
    if agent == ORACLE and failure is not None and failure.code.is_agents:
        # The reference solution failed by itself: that is what the probe is there to find out.
        return 0.0
    why = f"{failure.code}: {failure.message}" if failure is not None else rollout.error or "it has no reward"
    raise ProbeFailed(f"the probe {agent} {index} could not be measured: {why}", detail="probe")


def _listed(rewards: Sequence[float]) -> str:
    return "[" + " ".join(f"{reward:.4g}" for reward in rewards) + "]"
