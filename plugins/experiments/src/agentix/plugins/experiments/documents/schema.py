"""The JSON Schema of the file, for editors. Each YAML document of a file is checked against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentix.api import options_schema
from agentix.plugins.experiments.documents.models import Commands, CommandSpec, Experiment, LLMSpec
from agentix.plugins.experiments.documents.reading import KINDS
from agentix.plugins.experiments.documents.shorthand import SCOPES

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_NAME = {"type": "string", "minLength": 1}


@dataclass(frozen=True, kw_only=True)
class StepSchema:
    """What an editor is told of a step."""

    description: str = ""
    inputs: Mapping[str, Any] | None = None
    """JSON Schema of its `with`; `None` where that is not known."""


def schema(steps: Mapping[str, StepSchema] | None = None) -> dict[str, Any]:
    """The JSON Schema of the file (draft 2020-12).

    Args:
        steps: The installed steps by name, for the inputs of each.
    """
    definitions: dict[str, Any] = {}
    for model in (Commands, CommandSpec, LLMSpec, Experiment):
        whole = options_schema(model)
        definitions |= whole.pop("$defs", {})
        definitions[model.__name__] = whole
    definitions = {name: _plain(value) for name, value in definitions.items()}
    _commands(definitions)
    _llm_spec(definitions)
    _experiment(definitions)
    _steps(definitions, steps or {})
    for kind in KINDS:
        definitions[kind]["properties"] = {"kind": {"const": kind}, **definitions[kind]["properties"]}
    return {
        "$schema": DRAFT,
        "title": "agentix experiment file",
        "description": "One document of the file: how external things are run, a model, or the run.",
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": {"enum": list(KINDS), "description": "What the document is."}},
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
                "then": {"$ref": f"#/$defs/{kind}"},
            }
            for kind in KINDS
        ],
        "$defs": dict(sorted(definitions.items())),
    }


def _commands(definitions: dict[str, Any]) -> None:
    commands = definitions["Commands"]
    kept = {name: commands["properties"][name] for name in ("timeout", "max_attempts", "inherit_env")}
    include = {"type": "array", "items": _NAME, "description": "Files with commands, relative to this one."}
    commands["properties"] = {"include": include, **kept}
    commands["additionalProperties"] = {"$ref": "#/$defs/CommandSpec"}
    command = definitions["CommandSpec"]
    command["oneOf"] = [{"required": [form]} for form in ("run", "script", "uses")]
    command["dependentRequired"] = {"sha256": ["uses"]}


def _llm_spec(definitions: dict[str, Any]) -> None:
    spec, price = definitions["LLMSpec"], definitions["PriceSpec"]
    spec["properties"]["provider"] = {**_NAME, "description": "The same as `api`."}
    spec["allOf"] = [
        {"not": {"required": ["api", "provider"]}},
        {"not": {"required": ["api_key_env", "api_key_cmd"]}},
    ]
    for short, name in (("in", "input"), ("out", "output")):
        price["properties"][short] = {**price["properties"][name], "description": f"The same as `{name}`."}


def _experiment(definitions: dict[str, Any]) -> None:
    properties = definitions["Experiment"]["properties"]
    properties["case_defaults"] = {
        "$ref": "#/$defs/CaseSpec",
        "description": "What holds for every case that does not say otherwise.",
    }
    provider = definitions["ProviderSpec"]
    provider["additionalProperties"] = True
    said = properties["provider"]["description"]
    properties["provider"] = {"anyOf": [_NAME, {"$ref": "#/$defs/ProviderSpec"}], "description": said}
    agents = definitions["Matrix"]["properties"]["agents"]
    agents["items"] = {"anyOf": [_NAME, {"$ref": "#/$defs/AgentSpec"}]}
    older = {
        "type": "object",
        "additionalProperties": {"type": ["object", "null"]},
        "description": "The older form: the name of each step with its inputs.",
    }
    for scope in SCOPES:
        steps = definitions["Pipeline"]["properties"][scope]
        description = {"description": steps.pop("description")} if "description" in steps else {}
        steps.pop("default", None)
        definitions["Pipeline"]["properties"][scope] = {"anyOf": [steps, older], **description}


def _steps(definitions: dict[str, Any], steps: Mapping[str, StepSchema]) -> None:
    step = definitions["StepSpec"]
    uses = step["properties"]["uses"]
    names = [{"const": name, "description": found.description} for name, found in sorted(steps.items())]
    own = {"description": uses.get("description", "")}
    step["properties"]["uses"] = {"anyOf": [*names, _NAME], **own}
    conditions = []
    for name, found in sorted(steps.items()):
        if found.inputs is None:
            continue
        prefix = f"{name}."
        inputs = _renamed(_plain(dict(found.inputs)), prefix)
        nested = inputs.pop("$defs", {})
        definitions |= {f"{prefix}{key}": value for key, value in nested.items()}
        definitions[f"{prefix}with"] = inputs
        required = ["with"] if inputs.get("required") else []
        conditions.append(
            {
                "if": {"properties": {"uses": {"const": name}}, "required": ["uses"]},
                "then": {"properties": {"with": {"$ref": f"#/$defs/{prefix}with"}}, "required": required},
            }
        )
    if conditions:
        step["allOf"] = conditions


def _plain(value: Any) -> Any:
    """Without what only pydantic means: a key is left out rather than null, and durations are text."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    options = value.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:
        rest = [option for option in options if option != {"type": "null"}]
        value = {key: item for key, item in value.items() if key != "anyOf"}
        value |= rest[0] if len(rest) == 1 else {"anyOf": rest}
    found = {key: _plain(item) for key, item in value.items() if key != "title" or not isinstance(item, str)}
    if "default" in found and (found["default"] is None or found.get("type") == "string" != _type(found["default"])):
        del found["default"]
    return found


def _type(value: Any) -> str:
    return "string" if isinstance(value, str) else "other"


def _renamed(value: Any, prefix: str) -> Any:
    if isinstance(value, list):
        return [_renamed(item, prefix) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: item.replace("#/$defs/", f"#/$defs/{prefix}", 1)
        if key == "$ref" and isinstance(item, str)
        else _renamed(item, prefix)
        for key, item in value.items()
    }
