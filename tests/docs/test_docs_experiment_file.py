"""The page of the experiment file names every key that there is, and every default is what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agentix.plugins.experiments.documents.schema import schema

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/experiment-file.md"
KINDS = (
    "Commands",
    "CommandSpec",
    "LLMSpec",
    "PriceSpec",
    "Experiment",
    "Matrix",
    "AgentSpec",
    "LimitsSpec",
    "StepSpec",
)


def keys(kind: str) -> set[str]:
    found = set(schema()["$defs"][kind]["properties"]) - {"kind"}
    # The page calls the prices as the file usually does.
    return found - {"input", "output"} if kind == "PriceSpec" else found


def words() -> set[str]:
    text = re.sub(r"^```.*?^```", "", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {word for quoted in re.findall(r"`([^`]+)`", text) for word in re.split(r"[\s,:{}\[\]=]+", quoted)}


@pytest.mark.parametrize("kind", [*KINDS, "Pipeline", "ProviderSpec"])
def test_every_key_is_on_the_page(kind: str) -> None:
    assert keys(kind) - words() == set()


def rows() -> dict[str, tuple[str, ...]]:
    """Key and default of the tables with three columns."""
    found: dict[str, tuple[str, ...]] = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split(" | ")]
        if line.startswith("| `") and len(cells) == 3:
            found[cells[0].strip("`| ")] = (*found.get(cells[0].strip("`| "), ()), cells[2].strip("`| "))
    return found


def test_defaults_are_what_the_page_says() -> None:
    defined = schema()["$defs"]
    said = rows()
    checked = 0
    for kind in ("Commands", "Experiment", "Pipeline", "StepSpec"):
        for key, option in defined[kind]["properties"].items():
            default: Any = option.get("default")
            if isinstance(default, int | str) and key in said:
                assert str(default).lower() in said[key], (kind, key)
                checked += 1
    assert checked >= 8
