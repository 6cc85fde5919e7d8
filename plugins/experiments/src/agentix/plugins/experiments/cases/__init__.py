"""Where cases come from, which bytes they are, and the snapshots that are run."""

from agentix.plugins.experiments.cases.ahead import Foreseen, foresee
from agentix.plugins.experiments.cases.copying import copy_tree
from agentix.plugins.experiments.cases.intact import Intact
from agentix.plugins.experiments.cases.resolving import resolve
from agentix.plugins.experiments.cases.snapshots import SNAPSHOTS, with_case

__all__ = ["SNAPSHOTS", "Foreseen", "Intact", "copy_tree", "foresee", "resolve", "with_case"]
