"""What `agentix.testing` offers is exact, and importing it costs nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import agentix.testing


def test_every_offered_name_is_there_and_nothing_else_is_promised() -> None:
    names = agentix.testing.__all__
    assert len(names) == len(set(names))
    assert {name for home in agentix.testing._HOMES.values() for name in home} == set(names)
    tree = ast.parse(Path(agentix.testing.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert {alias.name for node in imports for alias in node.names} == set(names)
    for name in names:
        assert getattr(agentix.testing, name).__module__.startswith("agentix.testing.")
    assert set(names) <= set(dir(agentix.testing))


def test_importing_it_and_the_pytest_plugin_loads_nothing_of_agentix() -> None:
    script = (
        "import sys; import pytest; before = set(sys.modules); import agentix.testing.pytest_plugin; "
        "print(*sorted(set(sys.modules) - before))"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert {m for m in out.split() if m.startswith("agentix")} == {
        "agentix",
        "agentix.testing",
        "agentix.testing.pytest_plugin",
    }
    assert "pydantic" not in out.split()
