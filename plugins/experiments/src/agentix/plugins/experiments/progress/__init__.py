"""What a run shows while it goes on, and the state that another terminal reads."""

from agentix.plugins.experiments.progress.agent_table import agent_table
from agentix.plugins.experiments.progress.board import Board, CaseCount, InFlight
from agentix.plugins.experiments.progress.display import Display, Guarded, Plain, Quiet, make_display
from agentix.plugins.experiments.progress.shipment_log import SHIPMENTS, ShipmentLine, ShipmentLog
from agentix.plugins.experiments.progress.wording import counts, heartbeat, result_line

__all__ = [
    "SHIPMENTS",
    "Board",
    "CaseCount",
    "Display",
    "Guarded",
    "InFlight",
    "Plain",
    "Quiet",
    "ShipmentLine",
    "ShipmentLog",
    "agent_table",
    "counts",
    "heartbeat",
    "make_display",
    "result_line",
]
