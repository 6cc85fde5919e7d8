"""Commands documents, and those that they include."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentix.plugins.experiments.documents.files import identity, plain
from agentix.plugins.experiments.documents.models import Commands, CommandSpec
from agentix.plugins.experiments.documents.nodes import ListNode, MappingNode, Node, Scalar
from agentix.plugins.experiments.documents.problems import Problem, nearest
from agentix.plugins.experiments.documents.reading import documents_of, read_bytes
from agentix.plugins.experiments.documents.rules import command_problems, problem_at
from agentix.plugins.experiments.documents.validating import validated

SETTINGS = ("timeout", "max_attempts", "inherit_env")
MAX_INCLUDED = 200
"""Files in all."""

_UNREADABLE = CommandSpec(script="exit 1")
"""Stands for a command with problems, so that its name is not taken for one that nobody has."""


@dataclass(frozen=True, kw_only=True)
class FoundCommand:
    """A command, and the document that it stands in."""

    spec: CommandSpec
    document: MappingNode


@dataclass(kw_only=True)
class CommandSet:
    """Commands and settings, those of including files before those of included ones."""

    commands: dict[str, FoundCommand] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    unread: bool = False
    """Whether there may be more commands, in a file that could not be read."""

    def add(self, included: CommandSet) -> None:
        """Take over what is not there yet."""
        self.commands = {**included.commands, **self.commands}
        self.settings = {**included.settings, **self.settings}
        self.unread = self.unread or included.unread

    def model(self) -> Commands:
        """All of it as data."""
        return Commands(
            commands={name: one.spec for name, one in self.commands.items()},
            files={name: one.document.file for name, one in self.commands.items()},
            **self.settings,
        )


class CommandReader:
    """Reads Commands documents, each included file once."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self._read: dict[Path, CommandSet] = {}

    def read(self, document: MappingNode, *, file: Path, open_files: tuple[Path, ...] = ()) -> CommandSet:
        """One document with all that it includes.

        Args:
            document: Without its `kind`.
            file: Which file it stands in.
            open_files: The files that include it, outermost first.
        """
        here = (*open_files, identity(file))
        found = CommandSet()
        settings = document.with_entries([entry for entry in document.entries if entry.key in SETTINGS])
        read, _ = validated(Commands, settings, self._problems, what="Commands")
        if read is not None:
            found.settings = {name: getattr(read, name) for name in read.model_fields_set}
        for entry in document.entries:
            if entry.key not in (*SETTINGS, "include"):
                found.commands[str(entry.key)] = self._command(document, str(entry.key), entry.node)
        for index, included in self._included(document):
            found.add(self._include(document, index, included, file, here))
        return found

    def read_file(self, file: Path) -> CommandSet:
        """A file that holds just one Commands document."""
        return self._file(file, (), None)

    def _command(self, document: MappingNode, name: str, node: Node) -> FoundCommand:
        if not isinstance(node, MappingNode):
            near = nearest(name, (*SETTINGS, "include"))
            message = "is no command: a command is a mapping with run, script or uses"
            self._problems.append(problem_at(document, (name,), message, near=near))
            return FoundCommand(spec=_UNREADABLE, document=document)
        before = len(self._problems)
        spec, _ = validated(CommandSpec, node, self._problems, what="a command", prefix=(name,))
        self._problems.extend(command_problems(document, name, node))
        if spec is None or len(self._problems) > before:
            spec = _UNREADABLE
        return FoundCommand(spec=spec, document=document)

    def _included(self, document: MappingNode) -> list[tuple[int, str]]:
        """The files that a document includes, each with its position."""
        entry = document.get("include")
        if entry is None:
            return []
        nodes = [one.node for one in entry.node.entries] if isinstance(entry.node, ListNode) else [entry.node]
        names: list[tuple[int, str]] = []
        for index, node in enumerate(nodes):
            if isinstance(node, Scalar) and node.broken:
                continue
            if (
                not isinstance(entry.node, ListNode)
                or not isinstance(node, Scalar)
                or not isinstance(node.value, str)
                or not node.value
            ):
                message = "has to be a list of files, such as [commands.yaml]"
                self._problems.append(problem_at(document, ("include",), message))
                return []
            names.append((index, node.text))
        return names

    def _include(self, document: MappingNode, index: int, name: str, file: Path, here: tuple[Path, ...]) -> CommandSet:
        blame = problem_at(document, ("include", index), "")
        target = plain(file.parent / name)
        if (this := identity(target)) in here:
            circle = " → ".join(path.name for path in [*here[here.index(this) :], target])
            self._problems.append(problem_at(document, ("include", index), f"these include each other: {circle}"))
            return CommandSet()
        return self._file(target, here, blame)

    def _file(self, file: Path, here: tuple[Path, ...], blame: Problem | None) -> CommandSet:
        this = identity(file)
        if this in self._read:
            return self._read[this]
        if len(self._read) >= MAX_INCLUDED:
            line = blame.line if blame is not None else None
            message = f"more than {MAX_INCLUDED} files are included"
            self._problems.append(Problem(file=file, line=line, path="include", message=message))
            return CommandSet()
        self._read[this] = CommandSet()
        data = read_bytes(file, self._problems, blame=blame)
        if data is None:
            self._read[this].unread = True
            return self._read[this]
        before = len(self._problems)
        documents = documents_of(file, data, self._problems)
        ours = [document.node for document in documents if document.kind == "Commands"]
        for document in documents:
            if document.kind != "Commands":
                message = f"a file of commands holds one Commands document and no {document.kind}"
                self._problems.append(problem_at(document.node, (), message))
        if len(ours) > 1:
            message = f"there is a Commands document in line {ours[0].line} already; a file of commands holds one"
            self._problems.append(problem_at(ours[1], (), message))
        elif not ours and len(self._problems) == before:
            message = "holds no Commands document"
            self._problems.append(Problem(file=file, line=None, path="", message=message))
        elif ours:
            self._read[this] = self.read(ours[0], file=file, open_files=here)
        return self._read[this]
