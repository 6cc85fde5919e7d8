"""What every core test may use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentix.models import SandboxConfig

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def sandbox(anyio_backend: str) -> AsyncIterator[Sandbox]:
    """A sandbox that is a plain child process of the test, with a real runtime in it."""
    from agentix.sandbox import HostProcessProvider

    async with HostProcessProvider().session(SandboxConfig()) as opened:
        yield opened


BACKEND = '''
"""A build backend that needs nothing: a wheel of what is in `src`, described by pyproject.toml."""
import os, pathlib, tomllib, zipfile

def build_wheel(out, config_settings=None, metadata_directory=None):
    data = tomllib.loads(pathlib.Path("pyproject.toml").read_text())["project"]
    stem = f"{data['name'].replace('-', '_')}-{data['version']}"
    lines = ["Metadata-Version: 2.1", f"Name: {data['name']}", f"Version: {data['version']}"]
    lines += [f"Requires-Dist: {text}" for text in data.get("dependencies", ())]
    for extra, texts in data.get("optional-dependencies", {}).items():
        lines += [f"Provides-Extra: {extra}", *(f"Requires-Dist: {text}; extra == '{extra}'" for text in texts)]
    scripts = [f"{name} = {target}" for name, target in data.get("scripts", {}).items()]
    with zipfile.ZipFile(os.path.join(out, f"{stem}-py3-none-any.whl"), "w") as wheel:
        for path in sorted(pathlib.Path("src").rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                wheel.write(path, path.relative_to("src"))
        info = f"{stem}.dist-info"
        wheel.writestr(f"{info}/METADATA", "\\n".join(lines) + "\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/entry_points.txt", "\\n".join(["[console_scripts]", *scripts]) + "\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return f"{stem}-py3-none-any.whl"
'''


@dataclass
class Workshop:
    """Projects that build without a package index, and wheels for pip to find."""

    path: Path

    def project(
        self,
        name: str = "kit",
        *,
        folder: str | None = None,
        version: str = "0.1.0",
        dependencies: Sequence[str] = (),
        extra: str = "",
        files: Mapping[str, str] | None = None,
    ) -> Path:
        """Write a project with one package of its name."""
        top = self.path / (folder or name)
        sources = {"__init__.py": "", "cli.py": f"def main():\n    print('this is {name}')\n", **(files or {})}
        for place, text in sources.items():
            path = top / "src" / name / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (top / "mini.py").write_text(BACKEND)
        (top / "pyproject.toml").write_text(
            f'[build-system]\nrequires = []\nbuild-backend = "mini"\nbackend-path = ["."]\n'
            f'[project]\nname = "{name}"\nversion = "{version}"\ndependencies = {json.dumps(list(dependencies))}\n'
            f'scripts = {{ {name}-run = "{name}.cli:main" }}\n{extra}'
        )
        return top

    def wheel(self, name: str, version: str = "1.0", *, requires: Sequence[str] = (), text: str = "") -> Path:
        """Put a wheel where pip looks for it."""
        links = self.path / "links"
        links.mkdir(exist_ok=True)
        project = self.project(
            name, folder=f"sources/{name}-{version}", version=version, dependencies=requires, files={"value.py": text}
        )
        code = f"import sys; sys.path.insert(0, '.'); import mini; print(mini.build_wheel({str(links)!r}))"
        done = subprocess.run(
            [sys.executable, "-B", "-c", code], cwd=project, check=True, capture_output=True, text=True
        )
        return links / done.stdout.strip()


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every store needs and takes a second to make."""
    return tmp_path_factory.mktemp("prepared")


@pytest.fixture
def workshop(tmp_path: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A place for projects, with a store of its own and no way to the package index."""
    (tmp_path / "links").mkdir()
    cache = tmp_path / "cache"
    (cache / "bundles").mkdir(parents=True)
    for name in ("runtimes", "bundles/builders"):
        (prepared / name).mkdir(parents=True, exist_ok=True)
        (cache / name).symlink_to(prepared / name)
    monkeypatch.setenv("AGENTIX_CACHE_DIR", str(cache))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return Workshop(tmp_path)
