"""Variables in words of a command: `{{.CaseDir}}` and the like."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agentix.api import UsageError

# One without its dot is a mistake, and would go to the program as it is.
_VARIABLE = re.compile(r"\{\{\s*(\.?\w+)\s*\}\}")


def render(template: str, variables: Mapping[str, str], *, where: str = "a template") -> str:
    """Fill in a template.

    Args:
        template: Text with `{{.CamelCase}}` in it.
        variables: Values by name, as in the template (`CaseDir`) or as in the environment (`CASE_DIR`).
        where: What the template belongs to, for the error.

    Raises:
        UsageError: It names a variable that there is not.
    """
    if "{{" not in template:
        return template
    known = {_plain(name): value for name, value in variables.items()}

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name.startswith(".") and _plain(name[1:]) in known:
            return known[_plain(name[1:])]
        there_are = ", ".join(sorted({_camel(name) for name in variables})) or "none here"
        raise UsageError(
            f"{where}: there is no variable {match[0]}",
            hint=f"There are {there_are}. Keys and other secrets are in the command's environment only.",
        )

    return _VARIABLE.sub(value, template)


def variables_of(template: str) -> tuple[str, ...]:
    """What a template names, as it is written in it."""
    return tuple(match[0] for match in _VARIABLE.finditer(template))


def _plain(name: str) -> str:
    """`CASE_DIR`, `CaseDir` and `TrialID`, `TRIAL_ID` are one variable each."""
    return name.replace("_", "").lower()


def _camel(name: str) -> str:
    if not name.isupper():
        return f"{{{{.{name}}}}}"
    words = (word if word in _INITIALS else word.capitalize() for word in name.split("_"))
    return f"{{{{.{''.join(words)}}}}}"


_INITIALS = frozenset({"ID", "LLM", "URL", "MB", "SHA"})
