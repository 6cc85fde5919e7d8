"""The pytest plugin: says at the end which contract checks were waived, and which waivers are out of date.

pytest imports this in every test suite of an environment that has agentix, so it imports nothing of it and
prints nothing where no contract check ran.
"""

from __future__ import annotations

from typing import Any

import pytest

RESULTS: pytest.StashKey[list[tuple[str, Any]]] = pytest.StashKey()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """List the waivers."""
    told = [(node, r) for node, r in config.stash.get(RESULTS, []) if r.outcome in ("waived", "stale waiver")]
    if told:
        terminalreporter.section("agentix contract waivers")
    for node, result in told:
        terminalreporter.write_line(f"{result.outcome}: {node}: {result.message}")
