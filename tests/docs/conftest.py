"""Loads the snippet reader, which is no package and therefore not importable by name."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from agentix.bundle import cache_dir

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def snippets() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_snippets", HERE / "snippets.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session", autouse=True)
def cache() -> Iterator[None]:
    """Bundles of the pages go to a store of the tests' own; runtimes are shared, since each takes seconds to build."""
    folder = Path(tempfile.mkdtemp(prefix="agentix-test-"))
    folder.chmod(0o755)
    runtimes = cache_dir() / "runtimes"
    if runtimes.is_dir():
        (folder / "runtimes").symlink_to(runtimes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTIX_CACHE_DIR", str(folder))
        yield
    shutil.rmtree(folder)
