"""Where words begin in texts that are quoted in other texts."""

from __future__ import annotations

AFTER_ESCAPE = rb"(?<=\\[nrtbf])|(?<=\\u[0-9A-Fa-f]{4})|(?<=\\x[0-9A-Fa-f]{2})|(?<=%[0-9A-Fa-f]{2})|(?<=[0-9;\[]m)"
"""An escaped line break, `%3D` or a change of colour just before: its last letter begins no word."""
