"""A plain table that is as wide as its content, or as the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

_NARROWEST = 24
_BELOW = 4


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: frozenset[int] = frozenset(),
    width: int | None = None,
    shorten: int | None = None,
) -> list[str]:
    """Lines of a table.

    Args:
        header: Names of the columns.
        rows: Their cells.
        right: Columns that are aligned to the right.
        width: Where the last column is folded, between words; by default nowhere. Where next to nothing is left for
            it, it stands below its row. A row is one line all the same, with line breaks in it.
        shorten: Column of names that lose their beginnings first where the table would be wider than `width`.
    """
    if width is not None and shorten is not None:
        rows = _shortened(header, rows, column=shorten, width=width)
    widths = _widths(header, rows)
    indent = sum(widths[:-1]) + 2 * (len(widths) - 1)

    def line(cells: Sequence[str]) -> str:
        padded = [
            _padded(cell, width, right=column in right)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        whole = "  ".join(padded).rstrip()
        return whole if width is None or cell_len(whole) <= width else folded(cells[-1], first=head(padded))

    def head(padded: Sequence[str]) -> str:
        return "".join(f"{cell}  " for cell in padded[:-1])

    def folded(cell: str, *, first: str) -> str:
        assert width is not None
        beside = width - indent >= _NARROWEST or indent <= _BELOW
        start = indent if beside else _BELOW
        parts = textwrap.wrap(cell, max(width - start, _NARROWEST), break_on_hyphens=False)
        return (first if beside else f"{first.rstrip()}\n{' ' * start}") + f"\n{' ' * start}".join(parts)

    return [line(header), *(line(row) for row in rows)]


def _widths(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """Of the columns, in cells of a terminal: some characters take two, and some none."""
    return [max(cell_len(row[column]) for row in (header, *rows)) for column in range(len(header))]


def _padded(cell: str, width: int, *, right: bool) -> str:
    blank = " " * (width - cell_len(cell))
    return blank + cell if right else cell + blank


def _shortened(header: Sequence[str], rows: Sequence[Sequence[str]], *, column: int, width: int) -> list[Sequence[str]]:
    widths = _widths(header, rows)
    room = max(width - (sum(widths) + 2 * (len(widths) - 1) - widths[column]), _NARROWEST)
    return [[*row[:column], _ending(row[column], room), *row[column + 1 :]] for row in rows]


def _ending(text: str, room: int) -> str:
    """The end of a name, which tells it from others."""
    if cell_len(text) <= room:
        return text
    return "…" + set_cell_size(text[::-1], room - 1).rstrip()[::-1]
