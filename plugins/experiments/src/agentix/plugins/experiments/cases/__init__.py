"""Where cases come from, which bytes they are, and the snapshots that are run."""

from agentix.plugins.experiments.cases.copying import copy_tree
from agentix.plugins.experiments.cases.intact import Intact
from agentix.plugins.experiments.cases.resolving import resolve
from agentix.plugins.experiments.cases.snapshots import with_case

__all__ = ["Intact", "copy_tree", "resolve", "with_case"]
