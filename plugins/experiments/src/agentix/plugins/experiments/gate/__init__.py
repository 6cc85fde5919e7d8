"""The gate: no trial before its case is known to be measurable."""

from agentix.plugins.experiments.gate.cache import FILE, CachedVerdict, VerdictCache
from agentix.plugins.experiments.gate.repair import recall, recalls
from agentix.plugins.experiments.gate.running import GateResult, could_not_check, run_gate
from agentix.plugins.experiments.gate.setting import GATE_DIR, GateSetting, RunProbe, verdict_key

__all__ = [
    "FILE",
    "GATE_DIR",
    "CachedVerdict",
    "GateResult",
    "GateSetting",
    "RunProbe",
    "VerdictCache",
    "could_not_check",
    "recall",
    "recalls",
    "run_gate",
    "verdict_key",
]
