"""A plain table that is as wide as its content, or as the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

_NARROWEST = 24


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: frozenset[int] = frozenset(),
    width: int | None = None,
) -> list[str]:
    """Lines of a table.

    Args:
        header: Names of the columns.
        rows: Their cells.
        right: Columns that are aligned to the right.
        width: Where the last column is folded, between words; by default nowhere. A row is one line all the same, with
            line breaks in it.
    """
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    indent = sum(widths[:-1]) + 2 * (len(widths) - 1)

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        whole = "  ".join(padded).rstrip()
        return whole if width is None or len(whole) <= width else folded(cells[-1], first=whole[:indent])

    def folded(cell: str, *, first: str) -> str:
        assert width is not None
        wide = max(width - indent, _NARROWEST)
        return first + f"\n{' ' * indent}".join(textwrap.wrap(cell, wide, break_on_hyphens=False))

    return [line(header), *(line(row) for row in rows)]
