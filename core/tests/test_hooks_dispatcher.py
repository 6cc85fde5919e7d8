"""Every plugin is told, and none of them can break what it is told about."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentix.errors import PluginNotFound
from agentix.hooks import Hooks, hookimpl
from agentix.testing import write_distribution


class Recorder:
    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    @hookimpl
    def agentix_run_started(self, run: Any) -> None:
        self.log.append(f"{self.name} {run['id']}")


class Fails:
    @hookimpl
    def agentix_run_started(self, run: Any) -> None:
        raise ValueError("no luck")

    @hookimpl
    def agentix_run_finished(self) -> None:
        raise SystemExit(4)


def test_every_plugin_is_called_the_last_one_first() -> None:
    hooks, log = Hooks(), []  # type: ignore[var-annotated]
    assert hooks.register(Recorder(log, "first"), name="first") == []
    assert hooks.register(Recorder(log, "second"), name="second") == []
    assert hooks.call("agentix_run_started", run={"id": "r1"}) == []
    assert log == ["second r1", "first r1"]


def test_a_failing_hook_is_reported_by_its_plugin_and_the_others_are_called() -> None:
    hooks, log = Hooks(), []  # type: ignore[var-annotated]
    hooks.register(Recorder(log, "before"), name="before")
    hooks.register(Fails(), name="acme (acme-hooks 1.2)")
    hooks.register(Recorder(log, "after"), name="after")
    notes = hooks.call("agentix_run_started", run={"id": "r1"})
    assert notes == ["hook agentix_run_started of acme (acme-hooks 1.2) failed: ValueError: no luck"]
    assert log == ["after r1", "before r1"]
    assert "SystemExit: 4" in hooks.call("agentix_run_finished", summary={})[0]


def test_an_interrupt_is_not_taken_for_a_failing_hook() -> None:
    class Interrupts:
        @hookimpl
        def agentix_run_started(self) -> None:
            raise KeyboardInterrupt

    hooks = Hooks()
    hooks.register(Interrupts(), name="x")
    with pytest.raises(KeyboardInterrupt):
        hooks.call("agentix_run_started", run={})


def test_a_hook_nobody_implements_costs_no_note() -> None:
    assert Hooks().call("agentix_trial_started", trial=None) == []


def test_an_unknown_hook_or_argument_is_the_callers_error() -> None:
    with pytest.raises(PluginNotFound, match="no hook 'agentix_nope'"):
        Hooks().call("agentix_nope")
    with pytest.raises(TypeError, match="trial"):
        Hooks().call("agentix_trial_started")
    with pytest.raises(TypeError, match="extra"):
        Hooks().call("agentix_trial_started", trial=None, extra=1)


class WrongArgument:
    @hookimpl
    def agentix_run_started(self, no_such_argument: Any) -> None: ...


class IsAsync:
    @hookimpl
    async def agentix_run_started(self, run: Any) -> None: ...


class Wraps:
    @hookimpl(wrapper=True)
    def agentix_run_started(self, run: Any) -> Any:
        return (yield)


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [(WrongArgument(), "no_such_argument"), (IsAsync(), "is async"), (Wraps(), "is a wrapper")],
)
def test_hooks_of_a_wrong_form_are_left_out_with_a_note(plugin: object, reason: str) -> None:
    hooks = Hooks()
    (note,) = hooks.register(plugin, name="acme")
    assert note.startswith("hooks of acme are left out: ")
    assert reason in note
    assert hooks.call("agentix_run_started", run={}) == []


def test_a_hook_of_a_later_version_is_noted_and_the_rest_is_used() -> None:
    class Newer(Recorder):
        @hookimpl
        def agentix_moon_phase_changed(self) -> None: ...

    hooks, log = Hooks(), []  # type: ignore[var-annotated]
    notes = hooks.register(Newer(log, "newer"), name="acme")
    assert notes == ["acme implements agentix_moon_phase_changed, which this version of agentix does not call"]
    hooks.call("agentix_run_started", run={"id": "r1"})
    assert log == ["newer r1"]


HOOKS_MODULE = """
from agentix.api import hookimpl
@hookimpl
def agentix_run_started(run):
    run["seen"].append("module")
"""
HOOKS_CLASS = """
from agentix.api import hookimpl
class Mine:
    @hookimpl
    def agentix_run_started(self, run):
        run["seen"].append("class")
"""
SCRIPT = (
    "import json\n"
    "from agentix.hooks import Hooks\n"
    "hooks, notes = Hooks.installed()\n"
    "run = {'seen': []}\n"
    "notes += hooks.call('agentix_run_started', run=run)\n"
    "print(json.dumps([sorted(run['seen']), notes]))\n"
)


def run_installed(site: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], env=os.environ | {"PYTHONPATH": str(site)} | env, capture_output=True, text=True
    )


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for name, source, target in (
        ("acme-module", HOOKS_MODULE, "acme_module"),
        ("acme-class", HOOKS_CLASS, "acme_class:Mine"),
        ("acme-broken", "import nosuchmod", "acme_broken"),
    ):
        module = name.replace("-", "_")
        write_distribution(
            tmp_path, name=name, modules={f"{module}.py": source}, entry_points={"agentix.hooks": {"watch": target}}
        )
    return tmp_path


def test_hooks_of_installed_distributions_are_called_and_a_broken_one_is_noted(site: Path) -> None:
    seen, notes = json.loads(run_installed(site).stdout)
    assert seen == ["class", "module"]
    assert len(notes) == 1
    assert "acme-broken 1.0" in notes[0]
    assert "ModuleNotFoundError: No module named 'nosuchmod'" in notes[0]


def test_in_strict_mode_a_broken_one_is_an_error(site: Path) -> None:
    done = run_installed(site, AGENTIX_STRICT_PLUGINS="1")
    assert done.returncode != 0
    assert "PluginBroken" in done.stderr
