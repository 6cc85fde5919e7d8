"""The fixed list of trials: a pure function of the resolved cases and the matrix."""

from agentix.plugins.experiments.plan.agents import COMMAND_PREFIX, AgentKind, agent_kinds
from agentix.plugins.experiments.plan.selection import select_cases
from agentix.plugins.experiments.plan.trials import Plan, PlannedTrial, id_problems, make_plan

__all__ = [
    "COMMAND_PREFIX",
    "AgentKind",
    "Plan",
    "PlannedTrial",
    "agent_kinds",
    "id_problems",
    "make_plan",
    "select_cases",
]
