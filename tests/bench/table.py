"""The row that every benchmark script returns, and how rows are printed.

A script in this directory runs alone (`python tests/bench/runner_mock.py`) and has `rows() -> list[Row]`.
It ends with `if __name__ == "__main__": show(rows())`, after `from table import Row, show`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured figure.

    Args:
        name: What was measured, in a few words.
        ours: The figure.
        unit: Its unit, such as `/s`, `ms`, `MiB`.
        target: What it has to reach.
        better: Whether more or less of the unit is better.
        bare: The same work done by a bare loop in the same run, where there is one.
        ratio_target: The least share of the bare loop's speed that it has to reach.
    """

    name: str
    ours: float
    unit: str
    target: float | None = None
    better: Literal["more", "less"] = "more"
    bare: float | None = None
    ratio_target: float | None = None

    @property
    def ratio(self) -> float | None:
        """Share of the bare loop's speed: 1.0 is as fast, 0.5 is half as fast."""
        if self.bare is None or self.ours <= 0 or self.bare <= 0:
            return None
        return self.ours / self.bare if self.better == "more" else self.bare / self.ours

    @property
    def met(self) -> bool | None:
        """Whether every target is reached; `None` where there is none."""
        checks = []
        if self.target is not None:
            checks.append(self.ours >= self.target if self.better == "more" else self.ours <= self.target)
        if self.ratio_target is not None and self.ratio is not None:
            checks.append(self.ratio >= self.ratio_target)
        return all(checks) if checks else None


HEADER = ("what", "ours", "bare loop", "ratio", "target", "met")


def cells(row: Row) -> tuple[str, ...]:
    """A row as the words of a table."""
    wanted = []
    if row.target is not None:
        wanted.append(f"{'≥' if row.better == 'more' else '≤'} {_number(row.target)} {row.unit}")
    if row.ratio_target is not None:
        wanted.append(f"ratio ≥ {row.ratio_target:g}")
    met = {True: "yes", False: "no", None: ""}[row.met]
    return (
        row.name,
        f"{_number(row.ours)} {row.unit}",
        "" if row.bare is None else f"{_number(row.bare)} {row.unit}",
        "" if row.ratio is None else f"{row.ratio:.2f}",
        ", ".join(wanted),
        met,
    )


def markdown(rows: Iterable[Row]) -> str:
    """The rows as a markdown table, padded so that it reads well as plain text too."""
    table: list[Sequence[str]] = [HEADER, *(cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(HEADER))]
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + " |" for line in table
    ]
    lines.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(lines) + "\n"


def show(rows: Iterable[Row]) -> None:
    """Print the table."""
    print(markdown(rows), end="")


def _number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
