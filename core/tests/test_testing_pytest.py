"""The contract as pytest tests in a suite of somebody else's, and the plugin in suites without any."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

STEP = """
from pydantic import BaseModel, ConfigDict
from agentix.api import Scope, StepOutcome
from agentix.testing import StepCase, StepContract

class Inputs(BaseModel):
    model_config = ConfigDict(extra="{extra}")

class Step:
    "Does nothing."
    scopes = frozenset({{Scope.PER_TRIAL}})
    Inputs = Inputs
    async def run(self, ctx, inputs):
        return StepOutcome()

class TestStep(StepContract):
    waivers = {waivers}
    def plugin(self):
        return Step()
    def case(self):
        return StepCase(inputs={{}})
"""


def run_suite(directory: Path, source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_mine.py").write_text(source)
    (directory / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\nfilterwarnings = error\n")
    command = [sys.executable, "-W", "error", "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, env=env)


def test_five_lines_give_one_test_a_check_and_backend(tmp_path: Path) -> None:
    done = run_suite(tmp_path, STEP.format(extra="forbid", waivers={}), "-v")
    assert done.returncode == 0, done.stdout + done.stderr
    for check in ("scopes_are_declared", "inputs_are_strict", "running_twice_is_safe"):
        for backend in ("asyncio", "trio"):
            ids = (f"[{backend}-{check}] PASSED", f"[{check}-{backend}] PASSED")
            assert any(i in done.stdout for i in ids), done.stdout
    assert "waivers" not in done.stdout


def test_a_broken_promise_is_a_failure_that_states_it_without_a_traceback(tmp_path: Path) -> None:
    done = run_suite(tmp_path, STEP.format(extra="ignore", waivers={}))
    assert done.returncode == 1
    assert "`Inputs` is a pydantic model that refuses an unknown input." in done.stdout
    assert "Inputs needs model_config" in done.stdout
    assert "Traceback" not in done.stdout


def test_waivers_are_told_at_the_end(tmp_path: Path) -> None:
    waivers = {"inputs_are_strict": "keys are free", "scopes_are_declared": "was needed once"}
    done = run_suite(tmp_path, STEP.format(extra="ignore", waivers=waivers))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "agentix contract waivers" in done.stdout
    assert "keys are free (" in done.stdout
    assert "stale waiver: " in done.stdout
    assert "it passes; the waiver said: was needed once" in done.stdout


def test_a_strangers_suite_is_left_alone(tmp_path: Path) -> None:
    source = (
        "import sys\n"
        "def test_it(request):\n"
        "    loaded = [m for m in sys.modules if m.split('.')[0] in ('pydantic', 'agentix', 'stevedore')]\n"
        "    assert set(loaded) <= {'agentix', 'agentix.testing', 'agentix.testing.pytest_plugin'}, loaded\n"
        "    assert 'agentix.testing.pytest_plugin' in loaded\n"
    )
    done = run_suite(tmp_path, source)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "waivers" not in done.stdout


def test_a_class_that_makes_no_plugin_says_so(tmp_path: Path) -> None:
    done = run_suite(tmp_path, "from agentix.testing import StepContract\nclass TestStep(StepContract): pass\n")
    assert done.returncode == 1
    assert "TestStep has to say how to make its plugin" in done.stdout
