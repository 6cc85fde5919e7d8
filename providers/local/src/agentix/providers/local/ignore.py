"""The patterns of a .dockerignore file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath


class IgnoreRules:
    """Which paths of a build context are left out; the last pattern that matches decides.

    Args:
        lines: The lines of the file (Dockerfile reference, ".dockerignore file").
    """

    def __init__(self, lines: Sequence[str] = ()) -> None:
        self._rules: list[tuple[re.Pattern[str], bool]] = []
        for line in lines:
            pattern = line.strip()
            if not pattern or line.startswith("#"):
                continue
            leaves_out = not pattern.startswith("!")
            place = PurePosixPath("/", pattern.removeprefix("!").strip())
            parts = [part for part in place.parts[1:] if part != "."]
            if parts:
                self._rules.append((re.compile(_expression(parts)), leaves_out))

    @staticmethod
    def of(context: Path, dockerfile: Path) -> IgnoreRules:
        """The rules that go with a Dockerfile: its own, else the context's."""
        for path in (dockerfile.with_name(f"{dockerfile.name}.dockerignore"), context / ".dockerignore"):
            if path.is_file():
                text = path.read_text(encoding="utf-8-sig", errors="surrogateescape")
                return IgnoreRules(text.splitlines())
        return IgnoreRules()

    def ignores(self, path: PurePosixPath) -> bool:
        """Whether a path, relative to the context, is left out."""
        ignored = False
        for expression, leaves_out in self._rules:
            if ignored != leaves_out and expression.fullmatch(path.as_posix()):
                ignored = leaves_out
        return ignored


def segment_expression(pattern: str) -> str:
    """The regular expression of one path segment: `*`, `?`, `[a-z]`, `[^a]`, backslash (Go's filepath.Match)."""
    out = []
    position = 0
    while position < len(pattern):
        char = pattern[position]
        position += 1
        if char == "*":
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[" and (end := pattern.find("]", position + 1)) > 0:
            body = pattern[position:end].replace("\\", "\\\\")
            out.append(f"[{body}]")
            position = end + 1
        elif char == "\\" and position < len(pattern):
            out.append(re.escape(pattern[position]))
            position += 1
        else:
            out.append(re.escape(char))
    return "".join(out)


def _expression(parts: Sequence[str]) -> str:
    """A path itself, and everything below it."""
    out = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            out += ".*" if last else "(?:.*/)?"
        else:
            out += segment_expression(part) + ("" if last else "/")
    return f"{out}(?:/.*)?"
