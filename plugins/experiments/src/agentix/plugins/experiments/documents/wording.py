"""What was wanted and what was written instead, in the words of the file."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from agentix.plugins.experiments.documents.models import AgentSpec, CaseSpec, CommandSpec, ProviderSpec
from agentix.plugins.experiments.documents.nodes import ListNode, MappingNode, Node, Scalar

KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "mapping_type": "a mapping",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "finite_number": "a finite number",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than_equal": "at most {le:g}",
}
"""What has to stand there, by what pydantic calls the error."""
_PATTERNS = {
    "^[0-9a-f]{64}$": "64 hexadecimal digits in lower case",
    "^[A-Za-z_][A-Za-z0-9_]*$": "the name of an environment variable, never its value",
}
_MODELS: dict[type[BaseModel], str] = {
    AgentSpec: "a name or a mapping",
    ProviderSpec: "a name or a mapping",
    CaseSpec: 'a mapping such as {path: "cases/*"}',
    CommandSpec: "a mapping with run, script or uses",
}


def expected(error: dict[str, Any], node: Node | None, model: type[BaseModel] | None) -> str:
    """What is wrong with a value.

    Args:
        error: As pydantic tells it.
        node: The value.
        model: What has to stand there, where that is a mapping with known keys.
    """
    kind, context = error["type"], error.get("ctx", {})
    if kind in ("value_error", "assertion_error"):
        return str(context.get("error") or error["msg"])
    if kind in ("too_short", "string_too_short"):
        return "is empty"
    if kind == "string_pattern_mismatch":
        # The value is not repeated: where a variable's name belongs people paste the secret.
        return f"has to be {_PATTERNS.get(context['pattern'], 'like ' + context['pattern'])}"
    if kind in KINDS:
        wanted = KINDS[kind].format(**context) if model is None else _MODELS.get(model, "a mapping")
        return f"has to be {wanted}, not {said(node)}{_quoted(kind, node)}"
    if kind == "literal_error":
        return f"has to be {str(context['expected']).replace(chr(39), '')}, not {said(node)}"
    return f"{error['msg'][:1].lower()}{error['msg'][1:]}, not {said(node)}"


def said(node: Node | None) -> str:
    """A value as an error shows it."""
    if isinstance(node, MappingNode):
        return "a mapping"
    if isinstance(node, ListNode):
        return "a list"
    if not isinstance(node, Scalar) or node.value is None:
        return "nothing"
    text = shortened(node.text)
    return f'the text "{text}"' if isinstance(node.value, str) else text


def shortened(text: str) -> str:
    """A text on one line, and no more of it than is needed to know it again."""
    text = " ".join(text.split())
    return text if len(text) <= 40 else f"{text[:40]}…"


def _quoted(kind: str, node: Node | None) -> str:
    if kind == "string_type" and isinstance(node, Scalar) and node.value is not None:
        return f'; if it is meant, put it in quotes: "{node.text}"'
    return ""
