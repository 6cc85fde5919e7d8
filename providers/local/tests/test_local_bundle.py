"""Bundles in sandboxes of this machine."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from agentix.api import HostError, SandboxConfig, build_bundle
from agentix.providers.local import LocalProvider

pytestmark = [pytest.mark.anyio, pytest.mark.real]


@pytest.fixture
def bundle(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A dependency with a command, and a program."""
    with zipfile.ZipFile(tmp_path / "lower-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("lower/__init__.py", "import sys\ndef main():\n    print(__file__, __cached__, sys.argv)\n")
        wheel.writestr("lower-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: lower\nVersion: 1.0\n")
        wheel.writestr("lower-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("lower-1.0.dist-info/entry_points.txt", "[console_scripts]\nlower-run = lower:main\n")
        wheel.writestr("lower-1.0.dist-info/RECORD", "")
    project = tmp_path / "project"
    project.mkdir()
    (project / "hello").write_text("#!/bin/sh\necho hello\n")
    (project / "hello").chmod(0o755)
    (project / "pyproject.toml").write_text(
        '[project]\nname = "tools"\nversion = "1"\ndependencies = ["lower"]\n[tool.uv]\npackage = false\n'
        '[tool.agentix.bundle]\nscripts = ["lower-run"]\n'
        'tools = ["hello", { path = "/bin/ls", name = "list", libraries = true }]\n'
    )
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return build_bundle(project, name="tools").digest


async def test_commands_of_a_bundle_are_there_and_nobody_can_change_them(
    bundle: str, provider: LocalProvider, leftovers: None
) -> None:
    async with provider.session(SandboxConfig(bundle="tools")) as sandbox:
        assert sandbox.bundle is not None and sandbox.bundle.digest == bundle
        assert (await sandbox.exec("hello")).text == "hello\n"
        assert (await sandbox.exec(["list", "/agentix"])).text == "bundle\netc\nruntime\n"
        assert (await sandbox.exec("command -v hello")).text == "/agentix/bundle/bin/hello\n"
        refused = await sandbox.exec("echo x > /agentix/bundle/bin/hello || touch /agentix/bundle/site/x")
        assert not refused.ok and "Read-only file system" in refused.error_text


async def test_python_of_a_bundle_runs_on_the_base_runtime_with_compiled_modules(
    bundle: str, provider: LocalProvider, leftovers: None
) -> None:
    async with provider.session(SandboxConfig(bundle=bundle)) as sandbox:
        said = (await sandbox.exec(["lower-run", "a b"])).text
        assert said.startswith(
            "/agentix/bundle/site/lower/__init__.py /agentix/bundle/site/lower/__pycache__/__init__."
        )
        assert said.endswith("['lower-run', 'a b']\n")
        where = await sandbox.exec("/agentix/bundle/python -c 'import os; print(os.__file__)'")
        assert where.text.startswith("/agentix/runtime/lib/")


async def test_an_unknown_bundle_makes_no_sandbox(provider: LocalProvider, leftovers: None) -> None:
    with pytest.raises(Exception, match="there is no bundle nosuch:1") as caught:
        async with provider.session(SandboxConfig(bundle="nosuch:1")):
            pass
    assert not isinstance(caught.value, HostError)
