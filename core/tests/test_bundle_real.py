"""Bundles from the real package indexes, with setuptools, machine code and Node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentix.bundle import build_bundle

pytestmark = pytest.mark.real

PYPROJECT = """
[build-system]
requires = ["setuptools>=70"]
build-backend = "setuptools.build_meta"
[project]
name = "kit"
version = "0.1.0"
dependencies = ["markupsafe==3.0.2"]
[project.scripts]
kit-run = "kit.cli:main"
[tool.setuptools.packages.find]
where = ["src"]
[tool.agentix.bundle]
"""
CLI = """
import markupsafe._speedups
def main():
    print(markupsafe.escape("<"))
"""


@pytest.fixture
def project(workshop: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    top: Path = workshop.project(files={"cli.py": CLI, "extra.py": ""})
    (top / "mini.py").unlink()
    (top / "pyproject.toml").write_text(PYPROJECT)
    return top


def test_a_project_of_setuptools_with_machine_code(project: Path) -> None:
    before = sorted(project.rglob("*"))
    bundle = build_bundle(project, name="eval")
    assert sorted(project.rglob("*")) == before
    done = subprocess.run([bundle.path / "bin/kit-run"], check=True, capture_output=True, text=True)
    assert done.stdout == "&lt;\n"
    assert bundle.description.libc is not None
    (project / "src/kit/extra.py").unlink()
    again = build_bundle(project, name="eval")
    assert not any(entry.path == "site/kit/extra.py" for entry in again.description.entries)


def test_a_package_of_npm_runs_with_the_node_that_came_along(project: Path, tmp_path: Path) -> None:
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("needs node and npm")
    with (project / "pyproject.toml").open("a") as file:
        file.write('tools = ["npm:semver@7.7.1"]\n')
    bundle = build_bundle(project, name="eval")
    program = [bundle.path / "bin/semver", "1.2.3", "-i", "minor"]
    done = subprocess.run(program, check=True, capture_output=True, text=True, env={}, cwd=tmp_path)
    assert done.stdout == "1.3.0\n"
    script = "console.log(String(require('child_process').spawnSync(process.execPath, ['-p', '6 * 7']).stdout))"
    node = [bundle.path / "tools/node/node", "-e", script]
    done = subprocess.run(node, check=True, capture_output=True, text=True, env={})
    assert done.stdout.strip() == "42"
