"""From the text of a file to its documents, with every syntax error that can be told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentix.plugins.experiments.documents.nodes import Entry, ListNode, MappingNode, Node, Scalar, items
from agentix.plugins.experiments.documents.paths import Part, path_text
from agentix.plugins.experiments.documents.problems import Problem
from agentix.plugins.experiments.documents.scalars import read_scalar

MAX_DEPTH = 64
MAX_REPEATED = 100_000
"""How many values aliases and merge keys may repeat: a few lines of them could stand for billions."""

_UNPRINTABLE = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPED = re.compile(r"[\x00\ud800-\udfff]")
_SEPARATOR = re.compile(r"(---|\.\.\.)(\s|$)")
_MERGE = "<<"


class _Stop(Exception):
    """The rest of a document cannot be read."""


def read_documents(file: Path, text: str, problems: list[Problem]) -> list[Node]:
    """The documents of a file; empty ones are left out, and so is what cannot be read, with its problem."""
    odd = _UNPRINTABLE.search(text)
    if odd is not None:
        line = text.count("\n", 0, odd.start()) + 1
        message = f"the character U+{ord(odd.group()):04X} cannot stand in a YAML file"
        problems.append(Problem(file=file, line=line, path="", message=message))
        return []
    found: list[Node] = []
    for first_line, part in _split(text):
        node = _Composer(file, first_line, problems).compose(part)
        if node is not None and not (isinstance(node, Scalar) and node.value is None):
            found.append(node)
    return found


def _split(text: str) -> Iterator[tuple[int, str]]:
    """The documents, so that an error in one does not hide those of the next.

    YAML forbids both markers at the start of a line within any content, so no text is taken for one.
    """
    lines: list[str] = []
    start, has_content = 1, False
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
        marker = _SEPARATOR.match(line)
        if marker is not None and (has_content or marker[1] == "..."):
            yield start, "\n".join(lines)
            lines, start, has_content = [], number, False
        if marker is not None and marker[1] == "...":
            start = number + 1
            continue
        has_content = has_content or marker is not None or bool(line.strip() and not line.startswith(("#", "%")))
        lines.append(line)
    yield start, "\n".join(lines)


@dataclass
class _Anchor:
    node: Node | None
    """`None` while it is being read."""
    size: int = 0


class _Composer:
    def __init__(self, file: Path, first_line: int, problems: list[Problem]) -> None:
        self._file = file
        self._first = first_line
        self._problems = problems
        self._anchors: dict[str, _Anchor] = {}
        self._repeated = 0
        self._read = 0

    def compose(self, text: str) -> Node | None:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        try:
            events = iter(YAML(typ="safe", pure=True).parse(text))
            return self._document(events)
        except _Stop:
            return None
        except MarkedYAMLError as error:
            # What is never closed is looked for where it was opened.
            unclosed = error.context_mark is not None and re.search("end of stream|stream end", str(error.problem))
            mark = error.context_mark if unclosed or error.problem_mark is None else error.problem_mark
            self._tell(_line(mark), (), _syntax(error))
        except (YAMLError, ValueError) as error:
            self._tell(0, (), f"is not YAML: {error}")
        return None

    def _document(self, events: Iterator[Any]) -> Node | None:
        from ruamel.yaml.events import DocumentStartEvent, StreamEndEvent

        node: Node | None = None
        for event in events:
            if isinstance(event, DocumentStartEvent):
                node = self._node(next(events), events, (), 0)
            elif isinstance(event, StreamEndEvent):
                break
        return node

    def _node(self, event: Any, events: Iterator[Any], path: tuple[Part, ...], depth: int) -> Node:
        from ruamel.yaml.events import AliasEvent, MappingStartEvent, ScalarEvent

        line = _line(event.start_mark)
        if isinstance(event, AliasEvent):
            return self._alias(str(event.anchor), line, path)
        if depth > MAX_DEPTH:
            self._tell(line, path, f"lists and mappings go deeper than {MAX_DEPTH} levels here")
            raise _Stop
        anchor = _Anchor(None)
        if event.anchor:
            self._anchors[str(event.anchor)] = anchor
        if event.tag is not None:
            self._tell(line, path, f"the tag {_short_tag(str(event.tag))} is not read here; write the plain value")
        before = self._read
        self._read += 1
        if isinstance(event, ScalarEvent):
            node = self._scalar(event, line, path)
        elif isinstance(event, MappingStartEvent):
            node = self._mapping(events, line, path, depth)
        else:
            node = self._list(events, line, path, depth)
        anchor.node, anchor.size = node, self._read - before
        return node

    def _scalar(self, event: Any, line: int, path: tuple[Part, ...]) -> Node:
        text = str(event.value)
        value: str | int | float | bool | None = text
        broken = event.tag is not None
        if event.style is None and event.tag is None:
            try:
                value = read_scalar(text)
            except ValueError as error:
                self._tell(line, path, str(error))
                broken = True
        elif (odd := _ESCAPED.search(text)) is not None:
            # Neither can stand in the name of a file, in a variable or in a word of a command.
            what = "a NUL" if odd.group() == "\0" else "half of a character (a lone surrogate)"
            self._tell(line, path, f"holds {what}")
            value, broken = "", True
        return Scalar(file=self._file, line=self._first + line, value=value, text=text, broken=broken)

    def _list(self, events: Iterator[Any], line: int, path: tuple[Part, ...], depth: int) -> ListNode:
        from ruamel.yaml.events import SequenceEndEvent

        nodes: list[Node] = []
        for event in events:
            if isinstance(event, SequenceEndEvent):
                break
            nodes.append(self._node(event, events, (*path, len(nodes)), depth + 1))
        return items(self._file, self._first + line, nodes)

    def _mapping(self, events: Iterator[Any], line: int, path: tuple[Part, ...], depth: int) -> MappingNode:
        from ruamel.yaml.events import MappingEndEvent

        entries: dict[str, Entry] = {}
        merged: list[Node] = []
        for event in events:
            if isinstance(event, MappingEndEvent):
                break
            key_line = _line(event.start_mark)
            plain = getattr(event, "style", "") is None
            key = self._key(self._node(event, events, path, depth + 1), key_line, path)
            value = self._node(next(events), events, (*path, key), depth + 1)
            if key == _MERGE and plain:
                merged.extend(self._merged(value, key_line, path))
            elif key in entries:
                first = entries[key].line
                self._tell(key_line, (*path, key), f"this key stands here twice, first in line {first}")
            else:
                entries[key] = Entry(key=key, line=self._first + key_line, node=value)
        for source in merged:
            for entry in source.entries if isinstance(source, MappingNode) else ():
                entries.setdefault(str(entry.key), entry)
        return MappingNode(file=self._file, line=self._first + line, entries=tuple(entries.values()))

    def _key(self, node: Node, line: int, path: tuple[Part, ...]) -> str:
        if not isinstance(node, Scalar):
            self._tell(line, path, "a key has to be text, not a list or a mapping")
            return f"line {line}"
        if not isinstance(node.value, str):
            self._tell(line, (*path, node.text), f"a key has to be text; put it in quotes: {node.text!r}")
        return node.text

    def _alias(self, name: str, line: int, path: tuple[Part, ...]) -> Node:
        anchor = self._anchors.get(name)
        if anchor is None or anchor.node is None:
            why = "has no anchor before it in this document" if anchor is None else "stands inside what it repeats"
            self._tell(line, path, f"the alias *{name} {why}")
            return Scalar(file=self._file, line=self._first + line, value="", text="", broken=True)
        self._repeat(anchor.size, line, path)
        return anchor.node

    def _merged(self, value: Node, line: int, path: tuple[Part, ...]) -> list[Node]:
        sources = [entry.node for entry in value.entries] if isinstance(value, ListNode) else [value]
        if not all(isinstance(source, MappingNode) for source in sources):
            self._tell(line, (*path, _MERGE), "has to be an alias of a mapping, or a list of them")
        return sources

    def _repeat(self, size: int, line: int, path: tuple[Part, ...]) -> None:
        self._read += size
        self._repeated += size
        if self._repeated > MAX_REPEATED:
            self._tell(line, path, f"aliases repeat more than {MAX_REPEATED} values in this document")
            raise _Stop

    def _tell(self, line: int, path: tuple[Part, ...], message: str) -> None:
        at = self._first + line
        self._problems.append(Problem(file=self._file, line=at, path=path_text(path), message=message))


def _line(mark: Any) -> int:
    return int(mark.line) if mark is not None else 0


def _short_tag(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")


def _syntax(error: Any) -> str:
    problem = str(error.problem or error.context or "cannot be read")
    if "'\\t'" in problem:
        return "is not YAML: a tab stands where YAML takes spaces only"
    context = f"{error.context}, " if error.context and error.problem else ""
    return f"is not YAML: {context}{problem}"
