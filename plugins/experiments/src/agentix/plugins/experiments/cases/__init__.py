"""Where cases come from, which bytes they are, and the snapshots that are run."""

from agentix.plugins.experiments.cases.copying import copy_tree
from agentix.plugins.experiments.cases.resolving import resolve
from agentix.plugins.experiments.cases.snapshots import is_intact, with_case

__all__ = ["copy_tree", "is_intact", "resolve", "with_case"]
