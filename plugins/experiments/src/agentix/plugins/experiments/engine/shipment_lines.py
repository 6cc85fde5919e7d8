"""What became of a shipment, as a line of the run's `shipments.jsonl`."""

from __future__ import annotations

from pathlib import Path

from agentix.api import Record, StepContext, without_logins
from agentix.cli.api import utc_now
from agentix.plugins.experiments.progress import ShipmentLine
from agentix.plugins.experiments.publishing import Shipment
from agentix.plugins.experiments.steps import ResolvedStep, StepResult
from agentix.plugins.experiments.steps.templates import fill, variables


def line_of(
    step: ResolvedStep,
    ctx: StepContext,
    result: StepResult,
    *,
    shipment: Shipment | None,
    root: Path,
    record: Record | None = None,
    withheld: int = 0,
) -> ShipmentLine:
    """Put together what is known.

    Args:
        step: The step.
        ctx: Its unit.
        result: How it ended.
        shipment: What went; `None` where it did not come to that.
        root: The staging tree.
        record: Of the trial; `None` where it was of the whole run.
        withheld: How many trials were no part of it.
    """
    # What a transport says has arrived is truer than what was to go, and where to than what the file says.
    said = {} if result.outcome is None else result.outcome.outputs
    files, count, dest = said.get("files"), said.get("bytes"), said.get("destination")
    if dest is None and isinstance(given := step.given.get("dest"), str):
        dest = ctx.secrets.text(without_logins(fill(given, variables(ctx))))
    gone = (None, None) if shipment is None else (shipment.files, shipment.bytes)
    return ShipmentLine(
        at=utc_now(),
        step=step.label,
        ok=result.verdict == "passed",
        trial_id=None if record is None else record.trial_id,
        case=None if record is None else record.case,
        with_=step.plugin,
        path=None if shipment is None else str(shipment.path.relative_to(root)),
        files=files if isinstance(files, int) else gone[0],
        bytes=count if isinstance(count, int) else gone[1],
        destination=dest if isinstance(dest, str) else None,
        withheld=withheld,
        message=result.message[:2000],
    )
