"""What a contract check is, and how one says that a promise is not kept."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from agentix.models import Capability
from agentix.registry import Kind

CheckFunction = Callable[[Any, Any], Awaitable[None]]
"""Takes the plugin object and the case of its kind; returns where the promise is kept."""

Outcome = Literal["passed", "failed", "skipped", "waived", "stale waiver"]


class PromiseBroken(AssertionError):
    """The plugin does not do what its interface promises."""


class NotApplicable(Exception):
    """The check says nothing about this plugin or this case; the message is why."""


def expect(kept: object, message: str) -> None:
    """Go on where something holds.

    Raises:
        PromiseBroken: It does not.
    """
    if not kept:
        raise PromiseBroken(message)


def not_applicable(reason: str) -> NoReturn:
    """Leave the check."""
    raise NotApplicable(reason)


@dataclass(frozen=True)
class Check:
    """One promise of one interface."""

    kind: Kind
    name: str
    function: CheckFunction
    needs: Capability | None = None
    """Checked only where the plugin declares this."""
    lacks: Capability | None = None
    """Checked only where it does not."""

    @property
    def promise(self) -> str:
        """What the plugin promises, in one sentence."""
        return (inspect.getdoc(self.function) or self.name).split("\n\n", 1)[0].replace("\n", " ")

    def irrelevance(self, plugin: object) -> str | None:
        """Why the plugin's declared capabilities leave this check out, or `None`."""
        declared: object = getattr(plugin, "capabilities", None)
        if not isinstance(declared, frozenset | set):
            declared = frozenset()
        if self.needs is not None and self.needs not in declared:
            return f"the capability {self.needs} is not declared"
        if self.lacks is not None and self.lacks in declared:
            return f"the capability {self.lacks} is declared"
        return None


@dataclass(frozen=True)
class CheckResult:
    """How one check ended."""

    name: str
    outcome: Outcome
    promise: str
    message: str = ""
    """Why it failed, was left out or was waived."""

    @property
    def ok(self) -> bool:
        """Whether it says nothing against the plugin; a stale waiver does not."""
        return self.outcome != "failed"


class Checks:
    """The checks of one kind, in the order in which they were written."""

    def __init__(self, kind: Kind) -> None:
        self.kind: Kind = kind
        self.all: list[Check] = []

    def add(
        self, *, needs: Capability | None = None, lacks: Capability | None = None
    ) -> Callable[[CheckFunction], CheckFunction]:
        """Decorate a check; it is named like its function."""

        def register(function: CheckFunction) -> CheckFunction:
            self.all.append(Check(self.kind, function.__name__, function, needs, lacks))
            return function

        return register
