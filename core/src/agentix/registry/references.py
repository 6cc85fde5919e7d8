"""What a user may write to name a plugin, taken apart.

| form | means |
| --- | --- |
| `local` | the entry point of that name |
| `dist/local` | the one that the distribution has |
| `provider:local` | the same, with the kind said |
| `module:attr` | an attribute of an importable module |
| `./file.py[:attr]` | an attribute of a file; it defaults to the kind's name |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from agentix.errors import ConfigError
from agentix.registry.kinds import KINDS, TAKES_PATHS, Kind, a

_ATTR = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_FILE = re.compile(rf"(?P<path>.*\.py)(?::(?P<attr>{_ATTR}))?", re.DOTALL)
_MODULE = re.compile(rf"(?P<module>{_ATTR}):(?P<attr>{_ATTR})")


@dataclass(frozen=True)
class EntryRef:
    """An entry point by name."""

    name: str
    distribution: str | None = None


@dataclass(frozen=True)
class ModuleRef:
    """An attribute of an importable module."""

    module: str
    attr: str


@dataclass(frozen=True)
class FileRef:
    """An attribute of a Python file."""

    path: Path
    attr: str


def parse_reference(kind: Kind, text: str, *, where: str) -> EntryRef | ModuleRef | FileRef:
    """Take a reference apart.

    Raises:
        ConfigError: It is none of the forms, or names another kind than is wanted.
    """
    prefix, colon, rest = text.partition(":")
    if colon and prefix in KINDS:
        if prefix != kind:
            raise ConfigError(f"{text!r} names {a(prefix)}, not {a(kind)}", where=where)
        text = rest
    if match := _FILE.fullmatch(text):
        return FileRef(Path(match["path"]).expanduser(), match["attr"] or kind)
    if match := _MODULE.fullmatch(text):
        return ModuleRef(match["module"], match["attr"])
    if text.startswith((".", "/", "~")):
        hints = [f"a file is given as ./file.py[:{kind}]", *([TAKES_PATHS[kind]] if kind in TAKES_PATHS else [])]
        raise ConfigError(f"{text!r} is no Python file", where=where, hint="; ".join(hints))
    distribution, slash, name = text.rpartition("/")
    if ":" in text or not name.strip() or (slash and not distribution.strip()):
        raise ConfigError(
            f"{text!r} is no reference to {a(kind)}",
            where=where,
            hint="write NAME, DISTRIBUTION/NAME, MODULE:ATTR or ./FILE.py[:ATTR]",
        )
    return EntryRef(name, distribution if slash else None)
