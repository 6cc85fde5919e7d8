"""What a run has sent where, as `agentix status` tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from agentix.cli.api import plural, size
from agentix.plugins.experiments.progress.shipment_log import ShipmentLine

_MOST = 20


@dataclass(kw_only=True)
class OfTrials:
    """What a step has sent of trials, each counted by its last shipment."""

    step: str
    last: dict[str, ShipmentLine] = field(default_factory=dict)
    """By trial."""

    @property
    def failed(self) -> list[ShipmentLine]:
        """Those that have not arrived."""
        return [line for line in self.last.values() if not line.ok]

    def to_data(self) -> dict[str, Any]:
        """The same for programs."""
        arrived = [line for line in self.last.values() if line.ok]
        newest = max(self.last.values(), key=lambda line: line.at)
        return {
            "step": self.step,
            "with": newest.with_,
            "shipped": len(arrived),
            "failed": len(self.last) - len(arrived),
            "files": sum(line.files or 0 for line in arrived),
            "bytes": sum(line.bytes or 0 for line in arrived),
            "last_at": newest.at,
            "last_destination": newest.destination,
        }


@dataclass(frozen=True, kw_only=True)
class Shipments:
    """All shipments of a run."""

    whole: tuple[ShipmentLine, ...] = ()
    """Of the whole run, in their order, with those that were made again."""
    trials: tuple[OfTrials, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.whole or self.trials)

    @classmethod
    def of(cls, lines: Iterable[ShipmentLine], *, wanted: Callable[[str], bool]) -> Shipments:
        """Sort what a run's file says.

        Args:
            lines: Its lines.
            wanted: Tells the cases whose trials are looked at.
        """
        whole, trials = list[ShipmentLine](), dict[str, OfTrials]()
        for line in lines:
            if line.trial_id is None:
                whole.append(line)
            elif wanted(line.case or ""):
                trials.setdefault(line.step, OfTrials(step=line.step)).last[line.trial_id] = line
        return cls(whole=tuple(whole), trials=tuple(trials.values()))

    def lines(self, *, withheld: int, failures: bool = False) -> Iterator[str]:
        """What people read.

        Args:
            withheld: How many trials are not published.
            failures: Whether to list the trials of which a shipment has failed.
        """
        if len(self.whole) > _MOST:
            yield f"  … {len(self.whole) - _MOST} earlier ones: --json lists all"
        for line in self.whole[-_MOST:]:
            yield f"  {line.at[:19]}Z  step {line.step}: {_whole(line)}"
        for found in self.trials:
            data = found.to_data()
            parts = [f"{data['shipped']} shipped ({plural(data['files'], 'file')}, {size(data['bytes'])})"]
            parts += [f"{data['failed']} failed"] if data["failed"] else []
            parts += [f"{withheld} withheld"] if withheld else []
            to = f" to {data['last_destination']}" if data["last_destination"] else ""
            yield f"  {data['last_at'][:19]}Z  step {found.step}, each trial: {', '.join(parts)}; the last one{to}"
            for line in found.failed if failures else ():
                yield f"    {line.trial_id}: {line.message}"

    def to_data(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "whole": [_data(line) for line in self.whole],
            "trials": [
                {**found.to_data(), "failures": [_data(line) for line in found.failed]} for found in self.trials
            ],
        }


def _whole(line: ShipmentLine) -> str:
    about = [] if line.path is None else ["everything" if line.path == "." else line.path]
    if line.files is not None and line.bytes is not None:
        said = f"{plural(line.files, 'file')}, {size(line.bytes)}"
        about += [] if said in line.message else [said]
    if line.destination and line.destination not in line.message:
        about.append(f"to {line.destination}")
    what = f" ({', '.join(about)})" if about else ""
    return f"{'' if line.ok else 'FAILED: '}{line.message}{what}"


def _data(line: ShipmentLine) -> dict[str, Any]:
    return {("with" if key == "with_" else key): value for key, value in asdict(line).items()}
