"""Reads Dockerfiles: instructions with their lines, flags and heredocs (Dockerfile reference)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

WORD = re.compile(r"(?<!\S)\d*<<(-?)([\"']?)([A-Za-z_][A-Za-z0-9_.]*)\2(?=$|[\s;|&>)])")
"""What opens a heredoc: the dash, the quote and the name."""

_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)(?:\s+(.*))?$", re.DOTALL)
_DIRECTIVE = re.compile(r"#\s*([A-Za-z]+)\s*=\s*(.*?)\s*$")
_FLAG = re.compile(r"--([a-z-]+)(?:=(\S+))?(?:\s+|$)")


class HeredocError(ValueError):
    """A heredoc is not closed; the message has the line."""


@dataclass(frozen=True, kw_only=True)
class Heredoc:
    """A heredoc of an instruction."""

    name: str
    body: str
    raw: str
    """With the line that ends it, and tabs that do not count."""
    literal: bool
    """Whether variables in it stand for themselves."""


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """An instruction, or a line that is none."""

    keyword: str
    """In capitals; empty for a comment and an empty line."""
    rest: str
    """What follows, on one line."""
    line: int
    written: str
    """As it stands, without its heredocs."""
    heredocs: tuple[Heredoc, ...] = ()

    @property
    def flags(self) -> tuple[tuple[str, str], ...]:
        """Names and values of the flags before the arguments."""
        return tuple((match[1], match[2] or "") for match in self._flags())

    @property
    def arguments(self) -> str:
        """What follows the flags."""
        end = max((match.end() for match in self._flags()), default=0)
        return self.rest[end:]

    def flag(self, name: str) -> str | None:
        """The value of a flag."""
        return dict(self.flags).get(name)

    def _flags(self) -> Iterator[re.Match[str]]:
        at = 0
        while match := _FLAG.match(self.rest, at):
            yield match
            at = match.end()


@dataclass(frozen=True, kw_only=True)
class Dockerfile:
    """A Dockerfile that was read."""

    text: str
    instructions: tuple[Instruction, ...]
    syntax: str | None = None
    """The image of the frontend that it asks for."""


def read(text: str) -> Dockerfile:
    """Read a Dockerfile, as far as it makes sense: what is wrong in an instruction is the builder's to say.

    Raises:
        HeredocError: A heredoc is not closed.
    """
    lines = text.splitlines(keepends=True)
    directives: dict[str, str] = {}
    for line in lines:
        match = _DIRECTIVE.match(line.strip())
        if match is None or match[1].lower() in directives:
            break
        directives[match[1].lower()] = match[2]
    reading = _Reading(lines, (directives.get("escape") or "\\")[:1])
    return Dockerfile(text=text, instructions=tuple(reading.run()), syntax=directives.get("syntax") or None)


class _Reading:
    def __init__(self, lines: list[str], escape: str) -> None:
        self._lines = lines
        self._escape = escape
        self._at = 0

    def run(self) -> Iterator[Instruction]:
        while self._at < len(self._lines):
            first = self._at
            line = self._lines[first]
            if not line.strip() or line.lstrip().startswith("#"):
                self._at += 1
                yield Instruction(keyword="", rest="", line=first + 1, written=line)
                continue
            joined = self._joined()
            written = "".join(self._lines[first : self._at])
            match = _INSTRUCTION.match(joined)
            keyword, rest = (match[1].upper(), match[2] or "") if match else ("", "")
            opened = words(rest) if keyword in ("RUN", "COPY", "ADD") else []
            heredocs = tuple([self._heredoc(word, first) for word in opened])
            yield Instruction(keyword=keyword, rest=rest, line=first + 1, written=written, heredocs=heredocs)

    def _joined(self) -> str:
        parts: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at].rstrip("\r\n")
            self._at += 1
            if parts and line.lstrip().startswith("#"):
                continue
            stripped = line.rstrip()
            if not stripped.endswith(self._escape):
                parts.append(line)
                break
            parts.append(stripped[: -len(self._escape)])
        return "".join(parts)

    def _heredoc(self, found: re.Match[str], line: int) -> Heredoc:
        tabs, quote, name = found[1], found[2], found[3]
        body: list[str] = []
        raw: list[str] = []
        while self._at < len(self._lines):
            text = self._lines[self._at]
            self._at += 1
            raw.append(text)
            if tabs:
                text = text.lstrip("\t")
            if text.rstrip("\r\n") == name:
                return Heredoc(name=name, body="".join(body), raw="".join(raw), literal=bool(quote))
            body.append(text)
        raise HeredocError(f"line {line + 1}: the heredoc <<{name} has no line {name} that ends it")


def words(rest: str) -> list[re.Match[str]]:
    """The heredocs that an instruction opens; what stands in quotes opens none."""
    quoted = [(match.start(), match.end()) for match in re.finditer(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'", rest)]
    return [
        found
        for found in WORD.finditer(rest)
        if not any(start < found.start() and found.end() < end for start, end in quoted)
    ]
