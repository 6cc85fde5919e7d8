"""How plugins and checks of them are printed."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentix.registry import PluginInfo
    from agentix.testing import CheckResult

_BRIEF = ("kind", "name", "distribution", "version", "target", "state", "cause")
_SECTION = re.compile(r"^(?:Args|Attributes|Raises|Returns):$", re.MULTILINE)
_MORE = ("requires", "plugin_api", "doc", "capabilities", "isolation", "schema", "inputs")
_OF_FILES = ("step", "transport")
_WIDE = 100


def plain(info: PluginInfo, *, everything: bool = False) -> dict[str, Any]:
    """A plugin as JSON can hold it."""
    return {name: getattr(info, name) for name in (*_BRIEF, *(_MORE if everything else ()))}


def listing(found: Sequence[PluginInfo]) -> str:
    """A table with one line a plugin, and the reason below each that is no good."""
    if not found:
        return "no plugins are installed"
    from agentix.cli.table import table

    rows = [(i.kind, i.name, i.distribution, i.version, i.state) for i in found]
    lines = table(("KIND", "NAME", "DISTRIBUTION", "VERSION", "STATE"), rows)
    told = [lines[0]]
    for info, line in zip(found, lines[1:], strict=True):
        told.append(line)
        if info.cause:
            told.append(textwrap.indent(info.cause, "    "))
    return "\n".join(told)


def details(info: PluginInfo, *, width: int | None = None) -> str:
    """Everything that is known of one plugin.

    Args:
        info: The plugin.
        width: Where texts are folded; by default a line of a table stays a line.
    """
    facts = [
        ("kind", info.kind),
        ("distribution", f"{info.distribution} {info.version}"),
        ("entry point", info.target),
        ("state", info.state),
        ("cause", info.cause or ""),
        ("capabilities", ", ".join(info.capabilities)),
    ]
    parts = [info.name, *_indented([fact for fact in facts if fact[1]], width=width)]
    if info.kind == "cli":
        # It is an object of Typer, whose own docstring says nothing of the command.
        return "\n".join([*parts, "", f"What it does: agentix {info.name} --help"])
    if info.summary:
        parts += ["", textwrap.fill(info.summary, min(width or _WIDE, _WIDE))]
    if info.kind == "provider" and (isolation := info.isolation or _after_summary(info.doc)):
        parts += ["", "Isolation:", textwrap.indent(isolation, "  ")]
    if info.state in ("broken", "incompatible"):
        return "\n".join(parts)
    if options := option_rows(info.schema):
        parts += ["", "Options:", *_options(options, width=width)]
    elif info.kind not in _OF_FILES:
        parts += ["", "It takes no options."]
    if inputs := option_rows(info.inputs):
        parts += ["", "Inputs, in the file of an experiment:", *_options(inputs, width=width)]
    elif info.inputs is not None:
        parts += ["", "It takes no inputs."]
    return "\n".join(parts)


def check_text(result: CheckResult) -> str:
    """How one check ended, and below it what is wrong."""
    if result.outcome == "failed":
        return f"{'FAILED':<12}  {result.name}\n" + textwrap.indent(f"{result.promise}\n{result.message}", "    ")
    return f"{result.outcome:<12}  {result.name}" + (f": {result.message}" if result.message else "")


def counts_text(results: Sequence[CheckResult]) -> str:
    """How many checks ended in which way."""
    counts = Counter(result.outcome for result in results)
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items())


def option_rows(schema: Mapping[str, Any] | None) -> list[tuple[str, ...]]:
    """Name, type, default and meaning of each option."""
    if schema is None:
        return []
    required = schema.get("required", ())
    return [
        (
            name,
            _type(option, schema.get("$defs", {})),
            "required" if name in required else _default(option),
            " ".join(str(option.get("description", "")).split()),
        )
        for name, option in schema.get("properties", {}).items()
    ]


def _options(rows: Sequence[Sequence[str]], *, width: int | None) -> list[str]:
    return _indented([("NAME", "TYPE", "DEFAULT", "MEANING"), *rows], width=width)


def _indented(rows: Sequence[Sequence[str]], *, width: int | None) -> list[str]:
    """Lines of a table that stands below something."""
    from agentix.cli.table import table

    lines = table(rows[0], rows[1:], width=None if width is None else width - 2)
    return [textwrap.indent(line, "  ") for line in lines]


def _default(option: Mapping[str, Any]) -> str:
    """As a file says it."""
    value = option.get("default")
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, float):
        return f"{value:.12g}"
    return json.dumps(value)


def _type(option: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    if "$ref" in option:
        option = definitions.get(str(option["$ref"]).rpartition("/")[2], {})
    if "enum" in option:
        return "|".join(str(value) for value in option["enum"])
    if "const" in option:
        return str(option["const"])
    if "anyOf" in option:
        return "|".join(_type(o, definitions) for o in option["anyOf"] if o.get("type") != "null")
    if option.get("type") == "array":
        return f"list of {_type(option.get('items', {}), definitions)}"
    return str(option.get("format") or option.get("type") or "any")


def _after_summary(doc: str | None) -> str | None:
    prose = _SECTION.split((doc or "").partition("\n\n")[2])[0].strip()
    return prose or None
