"""How a run ended: what it is judged by, the exit code, and what every such ending is told with."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentix.cli import exit_codes
from agentix.cli.output import Output
from agentix.cli.wording import listed, number
from agentix.records import Layout
from agentix.stats import Summary


@dataclass(frozen=True, kw_only=True)
class RunEnding:
    """What the end of every run is judged by; what runs of one kind have besides is in a class of their own."""

    layout: Layout
    summary: Summary
    unrun: tuple[str, ...] = ()
    """Planned trials without a result."""
    signal: int | None = None
    stopped: str | None = None
    unreleased: tuple[str, ...] = ()
    fail_under: float | None = None
    allow_failures: bool = False
    elapsed_s: float = 0.0
    resume_with: str = ""
    retries: bool = False
    """Whether what was not measured can be run again, as `resume_with --retry`."""

    @property
    def below(self) -> bool:
        """Whether the mean is below what was asked for, or there is none."""
        mean = self.summary.mean_reward
        return self.fail_under is not None and (mean is None or mean < self.fail_under)

    @property
    def failed(self) -> bool:
        """Whether something else is wrong than that trials are unmeasured."""
        return bool(self.stopped or self.unrun or self.unreleased or self.summary.step_failures or self.below)

    @property
    def exit_code(self) -> int:
        """See `exit_codes`."""
        if self.signal is not None:
            return exit_codes.of_signal(self.signal)
        if self.failed:
            return exit_codes.FAILED
        if self.summary.infra_failures and not self.allow_failures:
            return exit_codes.UNMEASURED
        return exit_codes.OK

    @property
    def signal_name(self) -> str | None:
        """The name of the signal that ended it."""
        return None if self.signal is None else signal.Signals(self.signal).name

    @property
    def lacking(self) -> str:
        """How many results there are of how many, and which trials have none."""
        planned = self.summary.n + self.summary.unrun
        return f"expected {planned} results, have {self.summary.n}; without a result: {listed(self.unrun)}"

    def last_words(self) -> Iterator[str]:
        """What is told last of what went wrong with the run as a whole."""
        if self.retries and self.summary.infra_failures and not (self.unrun or self.stopped):
            yield f"run what was not measured again with {self.resume_with} --retry infra"
        if self.unreleased:
            yield f"sandboxes that may still exist: {', '.join(self.unreleased)}\n  remove them: agentix gc"
        if self.below:
            yield f"the mean reward is {number(self.summary.mean_reward)}, below {self.fail_under:g}"

    def own_data(self) -> Mapping[str, object]:
        """What runs of this kind tell programs besides."""
        return {}

    def to_data(self) -> dict[str, Any]:
        """The ending for programs."""
        return {
            "run_id": self.layout.root.name,
            "path": str(self.layout.root),
            "results": str(self.layout.results),
            "exit_code": self.exit_code,
            "signal": self.signal_name,
            "stopped": self.stopped,
            "unrun": list(self.unrun),
            "unreleased": list(self.unreleased),
            **self.own_data(),
            "elapsed_s": round(self.elapsed_s, 3),
            "summary": self.summary.to_data(),
        }


def print_json(ending: RunEnding, output: Output) -> None:
    """The ending for programs: one JSON object."""
    output.write(json.dumps(ending.to_data(), indent=2, allow_nan=False) + "\n")
    output.flush()


def missing(planned: Iterable[str], present: Iterable[str]) -> tuple[str, ...]:
    """The planned trials that have no result."""
    have = set(present)
    return tuple(name for name in planned if name not in have)
