"""Pinned files: the bytes that were hashed are the bytes that run."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentix.api import UsageError
from agentix.plugins.experiments.commands.command import SHELL, Command, commands_of
from agentix.plugins.experiments.documents import Problem, Submission, problem
from agentix.plugins.experiments.documents.paths import path_text


class CommandRefused(UsageError):
    """A configured command is not what the file says that it is."""


@dataclass(frozen=True, kw_only=True)
class CommandProblem:
    """Why a command cannot be run."""

    command: str
    key: str
    """The key of the command that is wrong: `run`, `script`, `uses` or `sha256`."""
    message: str


def check_commands(
    commands: Mapping[str, Command], *, names: Iterable[str] | None = None
) -> tuple[CommandProblem, ...]:
    """What stops commands from being run: a pin that does not match, a program that does not exist.

    Args:
        commands: All of them. A pin is checked wherever there is one.
        names: Those that will be run, whose programs have to exist; all by default.
    """
    used = set(commands if names is None else names)
    problems = []
    for name, command in commands.items():
        message = _pin_problem(command)
        if message is not None:
            problems.append(CommandProblem(command=name, key="sha256", message=message))
        elif name in used and (missing := _missing(command)) is not None:
            problems.append(CommandProblem(command=name, key=command.form, message=missing))
    return tuple(problems)


def command_problems(submission: Submission, *, names: Iterable[str] | None = None) -> tuple[Problem, ...]:
    """The same as `check_commands`, of a submission's commands and with their places in it."""
    found = check_commands(commands_of(submission), names=names)
    return tuple(problem(submission, path_text(("commands", p.command, p.key)), p.message) for p in found)


def check_pins(commands: Mapping[str, Command]) -> None:
    """Refuse files that are not what they are pinned to.

    Raises:
        CommandRefused: With every mismatch.
    """
    found = [f"the command {p.command}: {p.message}" for p in check_commands(commands, names=())]
    if found:
        raise CommandRefused(
            "\n".join(found), hint="Review the file; then pin its new hash, or bring back the old one."
        )


def pinned_content(command: Command) -> bytes:
    """What a pinned file holds, read once, so that what runs is what was checked.

    Args:
        command: A command of the form `uses` with a pin.

    Raises:
        CommandRefused: The file does not match its pin any more.
    """
    assert command.file is not None
    assert command.sha256 is not None
    content = _read(command)
    found = hashlib.sha256(content).hexdigest()
    if found != command.sha256:
        raise CommandRefused(f"the command {command.name}: {_mismatch(command.file, found, command.sha256)}")
    return content


def _read(command: Command) -> bytes:
    assert command.file is not None
    try:
        if command.file.exists() and not command.file.is_file():
            raise OSError(0, "it is no plain file")
        return command.file.read_bytes()
    except OSError as error:
        raise CommandRefused(f"the command {command.name}: {command.file} cannot be read: {error.strerror}") from error


def _pin_problem(command: Command) -> str | None:
    if command.sha256 is None or command.file is None:
        return None
    try:
        found = hashlib.sha256(_read(command)).hexdigest()
    except CommandRefused:
        return f"{command.file} cannot be read"
    return None if found == command.sha256 else _mismatch(command.file, found, command.sha256)


def _mismatch(file: Path, found: str, wanted: str) -> str:
    return f"{file} has the sha256 {found}, and is pinned to {wanted}"


def _missing(command: Command) -> str | None:
    """Why the program of a command cannot be started."""
    if command.file is not None:
        if command.file.is_dir():
            return f"{command.file} is a directory"
        if not command.file.exists():
            return f"there is no file {command.file}; a path here starts at {command.origin.parent}"
        if not command.file.is_file():
            return f"{command.file} is no plain file"
        return None if os.access(command.file, os.X_OK) else f"{command.file} is not executable; try chmod +x"
    program = SHELL[0] if command.form == "script" else command.argv[0]
    if "{{" in program or shutil.which(program) is not None:
        return None
    return f"there is no program {program!r}" + ("" if "/" in program else " on the PATH")
