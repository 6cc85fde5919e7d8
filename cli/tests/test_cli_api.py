"""The facade for plugins that add commands."""

from __future__ import annotations

import subprocess
import sys

import pytest

import agentix.cli.api as api
from agentix.cli.api.homes import HOMES


def test_all_is_exact_and_sorted() -> None:
    def key(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)

    assert sorted(api.__all__, key=key) == api.__all__
    homes = [name for names in HOMES.values() for name in names]
    assert sorted([*homes, "exit_codes"], key=key) == api.__all__


def test_every_name_is_there_and_is_what_its_home_has() -> None:
    for module, names in HOMES.items():
        for name in names:
            assert getattr(api, name) is getattr(sys.modules[module], name)
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        api.nope  # noqa: B018


def test_importing_it_loads_nothing_that_runs_trials() -> None:
    program = "import sys, agentix.cli.api; print({'agentix.runner', 'agentix.records'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set()"
