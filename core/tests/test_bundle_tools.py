"""Tools of a bundle: programs, directories, packages of npm."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentix.bundle import Bundle, build_bundle
from agentix.errors import BundleError

ECHO = shutil.which("echo") or "/bin/echo"


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def build(workshop: Any, table: str) -> Bundle:
    return build_bundle(workshop.project(extra=f"[tool.agentix.bundle]\n{table}\n"), name="tools")


def run(bundle: Bundle, *command: str, cwd: Path | None = None) -> str:
    program = bundle.path / "bin" / command[0]
    done = subprocess.run([program, *command[1:]], check=True, capture_output=True, text=True, env={}, cwd=cwd)
    return done.stdout


def test_a_program_a_directory_and_chosen_commands(workshop: Any) -> None:
    script(workshop.path / "kit/go", "echo went $1")
    script(workshop.path / "kit/suite/bin/check", 'cat "${0%/*}/../data"')
    script(workshop.path / "kit/suite/bin/other", "")
    (workshop.path / "kit/suite/data").write_text("beside it\n")
    script(workshop.path / "kit/flat/one", "echo one")
    (workshop.path / "kit/flat/notes.txt").write_text("no program")
    bundle = build(
        workshop, 'tools = ["go", { path = "suite", name = "checks", commands = ["bin/check"] }, { path = "flat" }]'
    )
    assert run(bundle, "go", "there") == "went there\n"
    assert run(bundle, "check") == "beside it\n"
    assert run(bundle, "one") == "one\n"
    assert sorted(path.name for path in (bundle.path / "bin").iterdir()) == ["check", "go", "kit-run", "one"]
    assert bundle.description.tools["check"] == "checks/bin/check"


def test_a_command_works_however_it_is_called(workshop: Any, tmp_path: Path) -> None:
    script(workshop.path / "kit/suite/run", "echo ran")
    bundle = build(workshop, 'tools = ["suite"]')
    places = bundle.path / "bin"
    for argv, cwd in (
        (["./run"], places),
        (["sh", "run"], places),
        (["bin/run"], bundle.path),
        (["../bin/run"], places),
    ):
        assert subprocess.run(argv, cwd=cwd, check=True, capture_output=True, text=True).stdout == "ran\n"
    moved = tmp_path / "somewhere else"
    shutil.copytree(bundle.path, moved, symlinks=True)
    assert subprocess.run([moved / "bin/run"], check=True, capture_output=True, text=True).stdout == "ran\n"


def test_a_program_can_bring_its_libraries_and_its_loader(workshop: Any) -> None:
    bundle = build(workshop, f'tools = [{{ path = "{ECHO}", name = "say", libraries = true }}]')
    assert run(bundle, "say", "a  b", "c") == "a  b c\n"
    assert list((bundle.path / "tools/say/lib").glob("ld-*"))
    with pytest.raises(BundleError, match="no ELF program"):
        build(workshop, f'tools = [{{ path = "{script(workshop.path / "x", "")}", libraries = true }}]')


@pytest.fixture
def npm(workshop: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An npm that installs one package, and counts; the node is one that prints what it is told to run."""
    count = workshop.path / "count"
    manifest = '{"name": "@a/b", "bin": {"say": "cli.js", "raw": "./bin/raw"}}'
    script(
        workshop.path / "fake/npm",
        f'echo $1 >> {count}; grep -q \'"@a/b": "1.2.3"\' package.json || exit 3\n'
        f"mkdir -p node_modules/@a/b/bin; cd node_modules/@a/b; echo '{manifest}' > package.json\n"
        "echo '// js' > cli.js; printf '#!/bin/sh\\necho raw\\n' > bin/raw; chmod +x bin/raw",
    )
    monkeypatch.setenv("PATH", f"{workshop.path}/fake:/usr/bin:/bin")
    return count


def test_a_package_of_npm_is_installed_once_and_runs_with_its_own_node(workshop: Any, npm: Path) -> None:
    table = f'tools = [{{ npm = "@a/b@1.2.3", node = "{ECHO}" }}]'
    bundle = build(workshop, table)
    again = build(workshop, table)
    assert again.digest == bundle.digest
    assert npm.read_text() == "install\n"
    top = f"{bundle.path}/bin/.."
    assert run(bundle, "say", "hello") == (
        f"--require {top}/tools/node/exec-path.cjs {top}/tools/npm/@a+b/node_modules/@a/b/cli.js hello\n"
    )
    assert run(bundle, "raw") == "raw\n"
    assert bundle.description.tools["say"] == "npm:@a/b@1.2.3"


def test_a_lock_of_npm_is_kept_to(workshop: Any, npm: Path) -> None:
    lock = workshop.project() / "package-lock.json"
    lock.write_text("{}")
    table = f'tools = [{{ npm = "@a/b@1.2.3", node = "{ECHO}", lock = "package-lock.json", commands = ["say"] }}]'
    bundle = build(workshop, table)
    assert not (bundle.path / "bin/raw").exists()
    lock.write_text('{"other": 1}')
    build(workshop, table)
    assert npm.read_text() == "ci\nci\n"
    with pytest.raises(BundleError, match="has no command nosuch; it has raw, say"):
        build(workshop, table.replace('"say"', '"nosuch"'))


def test_an_npm_that_fails_or_is_not_there_is_told(workshop: Any, npm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BundleError, match=r"installing npm:@a/c@1\.2\.3 failed:\n  exit code 3"):
        build(workshop, f'tools = [{{ npm = "@a/c@1.2.3", node = "{ECHO}" }}]')
    with pytest.raises(BundleError, match="there is no program at /nowhere"):
        build(workshop, 'tools = [{ npm = "@a/b@1.2.3", node = "/nowhere" }]')
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BundleError, match=r"tool npm:@a/b@1\.2\.3: node is not installed"):
        build(workshop, 'tools = ["npm:@a/b@1.2.3"]')
    with pytest.raises(BundleError, match=r"tool npm:@a/b@1\.2\.3: npm is not installed"):
        build(workshop, f'tools = [{{ npm = "@a/b@1.2.3", node = "{ECHO}" }}]')
