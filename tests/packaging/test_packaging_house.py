"""The layout checks find what they are there to find."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def house() -> ModuleType:
    spec = importlib.util.spec_from_file_location("house", Path(__file__).with_name("house.py"))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def small(tmp_path: Path, house: ModuleType) -> Path:
    """A repository with the real settings, and of each package only its `__init__.py` and `py.typed`."""
    for file in house.tracked(ROOT):
        settings = file.name in {"pyproject.toml", "LICENSE", "requirements-dev.txt"}
        if settings or ("src" in file.parts and file.name in {"__init__.py", "py.typed"}):
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def found(house: ModuleType, root: Path) -> list[str]:
    return list(house.problems(root, sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())))


def write(*paths: Path, text: str = "") -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_copy_of_this_repository_is_in_order(house: ModuleType, small: Path) -> None:
    assert found(house, small) == []


CORE = Path("core/src/agentix")

BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "init in the namespace": (
        lambda root: write(root / CORE / "__init__.py"),
        "core/src/agentix/__init__.py: makes the namespace a regular package",
    ),
    "init in the plugins namespace": (
        lambda root: write(root / "plugins/agents/baseline/src/agentix/plugins/agents/__init__.py"),
        "plugins/agents/baseline/src/agentix/plugins/agents/__init__.py: makes the namespace a regular package",
    ),
    "loose module": (
        lambda root: write(root / CORE / "loose.py"),
        "core/src/agentix/loose.py: a loose module in a namespace",
    ),
    "no py.typed": (
        lambda root: (root / CORE / "models/py.typed").unlink(),
        "core/src/agentix/models: has no py.typed",
    ),
    "long file": (
        lambda root: write(root / CORE / "models/long.py", text="x = 1\n" * 501),
        "core/src/agentix/models/long.py: 501 lines, the most is 500",
    ),
    "name missing from __all__": (
        lambda root: edit(root / CORE / "models/__init__.py", '    "Usage",\n', ""),
        "core/src/agentix/models/__init__.py: __all__ does not name Usage",
    ),
    "name in __all__ that is not there": (
        lambda root: edit(root / CORE / "models/__init__.py", '    "Usage",\n', '    "Usage",\n    "Usages",\n'),
        "core/src/agentix/models/__init__.py: __all__ names Usages, which the package does not have",
    ),
    "test package": (
        lambda root: write(root / "core/tests/__init__.py"),
        "core/tests/__init__.py: a test directory is no package",
    ),
    "two tests of one name": (
        lambda root: write(root / "cli/tests/test_a.py", root / "core/tests/test_a.py"),
        "core/tests/test_a.py: has the same name as cli/tests/test_a.py",
    ),
    "runtime with a dependency": (
        lambda root: write(root / CORE / "runtime/extra.py", text="def f():\n    import anyio\n"),
        "core/src/agentix/runtime/extra.py:2: imports anyio; the runtime has nothing but the standard library",
    ),
    "runtime with another room": (
        lambda root: write(root / CORE / "runtime/extra.py", text="from agentix.errors import HostError\n"),
        "core/src/agentix/runtime/extra.py:1: imports agentix.errors; the runtime has nothing but the standard library",
    ),
    "version of its own": (
        lambda root: edit(root / "cli/pyproject.toml", 'version = "0.1.0"', 'version = "0.2.0"'),
        "cli/pyproject.toml: version 0.2.0, but the root has 0.1.0",
    ),
    "no pin on core": (
        lambda root: edit(root / "cli/pyproject.toml", "agentix-rollouts-core==0.1.0", "agentix-rollouts-core>=0.1.0"),
        "cli/pyproject.toml: does not depend on agentix-rollouts-core==0.1.0",
    ),
    "another licence": (lambda root: write(root / "cli/LICENSE", text="mine"), "cli/LICENSE: is not a copy of LICENSE"),
    "a tool in one list only": (
        lambda root: edit(root / "requirements-dev.txt", "trio", "curio"),
        "requirements-dev.txt: is not the workspace's members and the group `dev` of pyproject.toml",
    ),
    "a room that import-linter does not know": (
        lambda root: write(root / CORE / "attic/__init__.py", root / CORE / "attic/py.typed"),
        "pyproject.toml: root_packages of importlinter and the source tree differ in agentix.attic",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_out_of_order_is_found(house: ModuleType, small: Path, case: str) -> None:
    damage, expected = BROKEN[case]
    damage(small)
    assert expected in found(house, small)


def test_lazy_packages_are_checked_by_their_type_checking_imports(house: ModuleType, small: Path) -> None:
    source = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from agentix.models import Usage as Usage
    from agentix.models import Trial as Trial
__all__ = ["Usage"]
def __getattr__(name): ...
"""
    (small / CORE / "api/__init__.py").write_text(source)
    assert found(house, small) == ["core/src/agentix/api/__init__.py: __all__ does not name Trial"]
