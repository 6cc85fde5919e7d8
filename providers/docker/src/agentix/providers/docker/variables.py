"""Variables in a Dockerfile, and what stands for them (Dockerfile reference, "Environment replacement")."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_VARIABLE = re.compile(r"\\?\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?[-+])([^}]*))?\})", re.ASCII)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(\"(?:[^\"\\]|\\.)*\"|'[^']*'|\S*)", re.ASCII)
_ARG = re.compile(r"([A-Za-z_]\w*)(?:=(\"(?:[^\"\\]|\\.)*\"|'[^']*'|\S*))?(?=\s|$)", re.ASCII)


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """The text with variables replaced; one that is not known is empty."""

    def value(match: re.Match[str]) -> str:
        if match[0].startswith("\\"):
            return match[0][1:]
        known = variables.get(match[1] or match[2])
        how, word = match[3] or "", match[4] or ""
        present = known is not None and (known != "" or not how.startswith(":"))
        if how.endswith("+"):
            return word if present else ""
        return known or "" if present or not how else word

    return _VARIABLE.sub(value, text)


def declared(rest: str) -> Iterator[tuple[str, str | None]]:
    """The names that an ARG declares, each with its default as it is written, or None."""
    for match in _ARG.finditer(rest):
        yield match[1], None if match[2] is None else match[2].strip("\"'")


def assigned(rest: str) -> Iterator[tuple[str, str]]:
    """The names that an ENV sets, each with its value as it is written."""
    pairs = _ASSIGNMENT.findall(rest)
    if not pairs:
        name, _, text = rest.strip().partition(" ")
        pairs = [(name, text.strip())]
    for name, text in pairs:
        yield name, text.strip("\"'")


def argued(rest: str, variables: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """What an ARG sets.

    Args:
        rest: The instruction without its name.
        variables: What is known before it.
        given: The build's arguments, which go before defaults.
    """
    found = dict(variables)
    for name, default in declared(rest):
        if name in given:
            found[name] = given[name]
        elif default is not None:
            found[name] = expanded(default, found)
    return {name: value for name, value in found.items() if variables.get(name) != value}
