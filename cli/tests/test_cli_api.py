"""The facade for plugins that add commands."""

from __future__ import annotations

import subprocess
import sys

import agentix.cli.api as api


def test_all_is_exact_and_sorted() -> None:
    def key(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)

    assert sorted(api.__all__, key=key) == api.__all__
    public = {name for name, value in vars(api).items() if not name.startswith("_") and name != "annotations"}
    modules = {name for name in public if name not in api.__all__}
    assert not modules, f"imported and not exported: {modules}"


def test_importing_it_loads_no_display_and_no_engine() -> None:
    program = "import sys, agentix.cli.api; print([m for m in ('rich.live', 'docker', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
