"""What an agent spent."""

from __future__ import annotations

from dataclasses import dataclass, fields


def _sum(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else a + b


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens, cost and calls of one attempt; `None` means unknown, which is not zero.

    Every prompt token is in exactly one of `input`, `cache_read` and `cache_write`, whichever way the
    model's API counts, so that the same usage costs the same everywhere.
    """

    input: int | None = None
    """Prompt tokens that were neither read from nor written to a cache."""
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cost_usd: float | None = None
    turns: int | None = None
    tool_calls: int | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{f.name: _sum(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)})  # type: ignore[arg-type]

    @property
    def tokens(self) -> int | None:
        """All tokens, or `None` where none of them is known."""
        known = [n for n in (self.input, self.output, self.cache_read, self.cache_write) if n is not None]
        return sum(known) if known else None
