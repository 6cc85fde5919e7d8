"""Run an agent over the instances of a dataset, each inside its own sandbox, and get a typed rollout of each.

    from agentix.runner import run_rollouts

    rollouts = await run_rollouts(dataset=my_dataset, agent=my_agent, provider=provider, n_concurrent=8)
    resolved = sum(r.resolved for r in rollouts)

One trial: a sandbox is made, the dataset's `setup` and the agent's `prepare` run in it, then the agent's `solve`;
what it changed is taken, the sandbox is deleted and the answer is scored in a fresh one, or in the same one where the
dataset says so. A dataset with a `drive` composes these steps itself.
"""

from agentix.interfaces import Agent, Dataset, Flow, RolloutContext, SandboxProvider
from agentix.models import (
    AgentResult,
    Event,
    Failure,
    FailureCode,
    Limits,
    Rollout,
    TimeoutRule,
    Trial,
    Usage,
    trial_id,
)
from agentix.runner.background import Background
from agentix.runner.grading import check_score
from agentix.runner.outcome import write_failure
from agentix.runner.plan import RUN_LABEL, TRIAL_LABEL, SeenIds, plan
from agentix.runner.preparer import Preparer, preparing
from agentix.runner.run import rollout_one, run_rollouts, run_rollouts_sync, stream_rollouts, stream_trials
from agentix.runner.stream import RolloutStream

__all__ = [
    "RUN_LABEL",
    "TRIAL_LABEL",
    "Agent",
    "AgentResult",
    "Background",
    "Dataset",
    "Event",
    "Failure",
    "FailureCode",
    "Flow",
    "Limits",
    "Preparer",
    "Rollout",
    "RolloutContext",
    "RolloutStream",
    "SandboxProvider",
    "SeenIds",
    "TimeoutRule",
    "Trial",
    "Usage",
    "check_score",
    "plan",
    "preparing",
    "rollout_one",
    "run_rollouts",
    "run_rollouts_sync",
    "stream_rollouts",
    "stream_trials",
    "trial_id",
    "write_failure",
]
