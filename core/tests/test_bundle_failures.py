"""Builds that cannot succeed say why, and leave nothing behind; interrupted ones break nothing."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agentix.bundle import build as building
from agentix.bundle import build_bundle, collect_bundles, find_bundle, list_bundles
from agentix.bundle import pip as pips
from agentix.errors import BundleError, HostError, UsageError


def expect_nothing_left(cache: Path) -> None:
    assert not list((cache / "bundles").glob(".new-*"))
    assert list_bundles() == []


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('tools = ["nowhere"]', "tool nowhere does not exist"),
        ('tools = ["pyproject.toml"]', r"tool pyproject\.toml is not executable"),
        ('tools = ["src"]', "tool src has no programs"),
        ('tools = ["npm:left-pad"]', r"tools: tool 1: 'left-pad' is not NAME@VERSION"),
        ('tools = [{ path = "x", nmae = "y" }]', r"tool\.agentix\.bundle\.tools: tool 1: nmae"),
        ("tools = [3]", r"tool 1: a tool is a path"),
        ('tolls = ["x"]', r"tool\.agentix\.bundle\.tolls"),
        ('scripts = ["nosuch"]', "no dependency has a command nosuch; there are kit-run"),
        ('tools = [{ path = "mini.py", libraries = true }]', r"mini\.py is not executable"),
    ],
)
def test_a_table_that_asks_for_what_is_not_there(workshop: Any, tmp_path: Path, table: str, said: str) -> None:
    project = workshop.project(extra=f"[tool.agentix.bundle]\n{table}\n")
    with pytest.raises(BundleError, match=said):
        build_bundle(project, name="eval")
    expect_nothing_left(tmp_path / "cache")


def test_a_link_out_of_a_tool_is_refused(workshop: Any) -> None:
    project = workshop.project(extra='[tool.agentix.bundle]\ntools = ["lint"]\n')
    (project / "lint").mkdir()
    (project / "lint/run").symlink_to("../../../etc/passwd")
    with pytest.raises(BundleError, match="leads out of the directory"):
        build_bundle(project, name="eval")


def test_two_tools_with_one_command_are_refused(workshop: Any) -> None:
    project = workshop.project(extra='[tool.agentix.bundle]\ntools = ["a/go", "b/go"]\n')
    for name in "ab":
        (project / name).mkdir()
        (project / name / "go").write_text("#!/bin/sh\n")
        (project / name / "go").chmod(0o755)
    with pytest.raises(BundleError, match="have the command go"):
        build_bundle(project, name="eval")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, r"there is no pyproject\.toml in"),
        ("[project\n", r"pyproject\.toml: "),
        ("project = 3\n", r"pyproject\.toml: project is no table"),
        ("[tool]\nagentix = []\n", r"pyproject\.toml: tool\.agentix is no table"),
        ('[build-system]\nrequires = []\nbuild-backend = 3\n[project]\nname = "x"\n', "build-system"),
        (
            '[build-system]\nrequires = []\nbuild-backend = "nosuch"\n[project]\nname = "x"\n',
            "No module named 'nosuch'",
        ),
        ('[build-system]\nrequires = []\nbuild-backend = "x"\nbackend-path = ["../y"]\n', "backend-path"),
    ],
)
def test_a_project_that_cannot_be_built(workshop: Any, tmp_path: Path, text: str | None, said: str) -> None:
    project = tmp_path / "broken"
    project.mkdir()
    if text is not None:
        (project / "pyproject.toml").write_text(text)
    with pytest.raises(BundleError, match=said):
        build_bundle(project, name="eval")
    with pytest.raises(BundleError, match="there is no directory"):
        build_bundle(tmp_path / "nowhere", name="eval")


def test_a_backend_that_fails_is_quoted(workshop: Any, tmp_path: Path) -> None:
    project = workshop.project()
    (project / "mini.py").write_text("def build_wheel(*_):\n    raise RuntimeError('no compiler here')\n")
    with pytest.raises(BundleError, match=r"building .*kit failed:(.|\n)*RuntimeError: no compiler here"):
        build_bundle(project, name="eval")
    expect_nothing_left(tmp_path / "cache")


def test_a_package_that_does_not_exist_is_named(workshop: Any, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"fetching the dependencies failed:(.|\n)*nosuchpackage"):
        build_bundle(workshop.project(dependencies=["nosuchpackage"]), name="eval")
    expect_nothing_left(tmp_path / "cache")


@pytest.mark.parametrize("name", ["Eval", "a//b", "eval:", "eval:-x", "eval:a/b", "", "a..b", "x" * 200])
def test_a_name_that_is_not_valid_is_refused_before_anything_is_built(workshop: Any, name: str) -> None:
    with pytest.raises(BundleError, match=r"is no (name|tag)") as caught:
        build_bundle(workshop.path / "nowhere", name=name)
    assert isinstance(caught.value, UsageError)


def test_a_full_disk_is_told_as_one(workshop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(building, "unpack_wheel", full)
    with pytest.raises(HostError, match=r"the disk of .* is full\n  make room: `agentix bundle gc`"):
        build_bundle(workshop.project(), name="eval")
    expect_nothing_left(tmp_path / "cache")


def test_a_disk_that_is_full_for_a_program_of_the_build_is_told_as_one(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="is full"):
        pips.run(["sh", "-c", "echo 'write: No space left on device' >&2; exit 1"], work=tmp_path, what="building")


SLOW = """
import os, pathlib, time
def build_wheel(*_):
    pathlib.Path("../pid").write_text(str(os.getpid()))
    time.sleep(600)
"""


def test_a_build_that_is_killed_breaks_nothing(workshop: Any, tmp_path: Path) -> None:
    project = workshop.project()
    before = build_bundle(project, name="eval")
    backend = (project / "mini.py").read_text()
    (project / "mini.py").write_text(SLOW)
    code = f"from agentix.bundle import build_bundle; build_bundle({str(project)!r}, name='eval')"
    builder = subprocess.Popen([sys.executable, "-c", code])
    pid = project.parent / "pid"
    while not (pid.exists() and pid.read_text()):
        assert builder.poll() is None
        time.sleep(0.01)
    assert any("a build is running" in kept for kept in collect_bundles().kept)
    builder.kill()
    builder.wait()
    os.kill(int(pid.read_text()), signal.SIGKILL)
    assert find_bundle("eval").digest == before.digest
    (project / "mini.py").write_text(backend)
    assert build_bundle(project, name="eval").digest == before.digest
    assert list((tmp_path / "cache/bundles").glob(".new-*"))
    assert any(name.startswith(".new-") for name in collect_bundles().removed)
    assert not list((tmp_path / "cache/bundles").glob(".new-*"))
    assert find_bundle("eval").digest == before.digest
