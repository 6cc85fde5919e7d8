"""What is taken out besides known values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentix.redaction.extra_patterns import FLAGS, checked_kind, checked_pattern

EXTRA = "extra"


@dataclass(frozen=True, kw_only=True)
class RedactionRules:
    """Where addresses are taken out, and what else is. Known values and known shapes always are.

    Raises:
        ConfigError: A pattern is none, matches an empty text, or takes too long on some texts.
    """

    ips_in_results: bool = True
    """In trajectories, results and records, which leave the team."""
    ips_in_logs: bool = False
    """In every other file; there, a version number is easily taken for an address."""
    extra_patterns: tuple[str, ...] = ()
    """Regular expressions, with `^` and `$` at line breaks; what they match is taken out and counted as `extra`. Of one
    that has a group named `secret`, only that is."""
    patterns: Mapping[str, str] = field(default_factory=dict)
    """More of them by the kind that they are counted as, such as those that plugins give."""

    def __post_init__(self) -> None:
        if isinstance(self.extra_patterns, str):
            raise TypeError("extra_patterns is a list of regular expressions, not one")
        object.__setattr__(self, "extra_patterns", tuple(self.extra_patterns))
        object.__setattr__(self, "patterns", dict(self.patterns))
        for number, pattern in enumerate(self.extra_patterns):
            checked_pattern(pattern, where=f"extra_patterns[{number}]")
        for kind, pattern in self.patterns.items():
            checked_kind(kind, where="patterns")
            checked_pattern(pattern, where=f"patterns[{kind!r}]")

    def compiled(self) -> tuple[tuple[str, re.Pattern[str]], ...]:
        """Every pattern with its kind."""
        given = [*((EXTRA, pattern) for pattern in self.extra_patterns), *self.patterns.items()]
        return tuple((kind, re.compile(pattern, FLAGS)) for kind, pattern in given)
