"""One configured command, and what exactly it would run."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from agentix.plugins.experiments.commands.template import render
from agentix.plugins.experiments.documents import CommandSpec, Submission, plain

Form = Literal["run", "script", "uses"]
SHELL = ("bash", "-c")

_WORD = re.compile(r"[^\s'\"`;|&<>(){}$=]+")
# What a script writes to is no part of what it is: a log would make every resumed run another one.
_WRITTEN = re.compile(r"(?:>>?[|&]?|\btee\s(?:\s*-\w+\s)*)\s*['\"]?[^\s'\"`;|&<>()]+")


@dataclass(frozen=True, kw_only=True)
class Command:
    """How one external thing is run."""

    name: str
    form: Form
    argv: tuple[str, ...] = ()
    """Of the form `run`: a program and its arguments, with their templates."""
    script: str = ""
    """Of the form `script`: what bash is given, as it is."""
    file: Path | None = None
    """Of the form `uses`: the executable."""
    sha256: str | None = None
    """What that file has to hash to."""
    env: tuple[str, ...] = ()
    """Variables of this machine that it may see where not all are inherited."""
    hidden: frozenset[str] = frozenset()
    """Variables of this machine that it never sees."""
    timeout_s: float = 1800.0
    origin: Path
    """The document that it comes from."""

    @classmethod
    def of(cls, name: str, spec: CommandSpec, *, origin: Path, timeout_s: float) -> Command:
        """The command that a document describes; its relative paths start beside that document."""
        form: Form = "run" if spec.run is not None else "script" if spec.script is not None else "uses"
        return cls(
            name=name,
            form=form,
            argv=spec.run or (),
            script=spec.script or "",
            file=None if spec.uses is None else plain((origin.parent / Path(spec.uses).expanduser()).absolute()),
            sha256=spec.sha256,
            env=spec.env,
            timeout_s=timeout_s if spec.timeout is None else spec.timeout,
            origin=origin,
        )

    def arguments(self, values: Mapping[str, str] = MappingProxyType({})) -> tuple[str, ...]:
        """The program and its arguments, with the templates filled in.

        Raises:
            UsageError: A template names a variable without a value.
        """
        if self.form == "script":
            return (*SHELL, self.script, self.name)
        if self.file is not None:
            return (str(self.file),)
        return tuple(render(part, values, where=f"the command {self.name}") for part in self.argv)

    def shell_line(self, values: Mapping[str, str] = MappingProxyType({})) -> str:
        """The same as one line of shell, for who runs it somewhere else."""
        return shlex.join(self.arguments(values))

    def fingerprint(self) -> str:
        """Hash of what would run: the form, its words, the variables it sees, and the bytes of the files it names."""
        return _hash(self._facts())

    def parts(self) -> dict[str, str]:
        """The hash of each part of that, to tell which of them is another one."""
        facts = self._facts()
        files: dict[str, str | None] = facts.pop("files")
        found = {name: _hash(value) for name, value in facts.items() if value}
        return found | {f"file {path}": sha256 or "" for path, sha256 in files.items()}

    def _facts(self) -> dict[str, Any]:
        return {
            "form": self.form,
            "argv": self.argv,
            "script": self.script,
            "sha256": self.sha256,
            "env": self.env,
            "files": {str(path): file_sha256(path) for path in self._files()},
        }

    def _files(self) -> Iterator[Path]:
        if self.file is not None:
            yield self.file
        # A bare word is a program that is found on the PATH, or no file at all.
        words = self.argv if self.form == "run" else _WORD.findall(_WRITTEN.sub(" ", self.script))
        for word in sorted({word for word in words if "/" in word or word in self.argv[1:]}):
            path = Path(word)
            if len(word) < 4096 and "\0" not in word and _is_file(path):
                yield path


def commands_of(submission: Submission) -> dict[str, Command]:
    """The configured commands of an experiment file, by name."""
    document = submission.commands
    return {
        name: Command.of(name, spec, origin=document.files.get(name, submission.path), timeout_s=document.timeout)
        for name, spec in document.commands.items()
    }


def _hash(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode("ascii")).hexdigest()


def file_sha256(path: Path) -> str | None:
    """Hash of a file's bytes; `None` where it cannot be read."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False
