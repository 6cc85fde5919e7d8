"""Numbers with their nouns."""

from __future__ import annotations


def counted(count: int, word: str) -> str:
    """`1 trial`, `2 trials`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
