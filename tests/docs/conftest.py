"""Loads the snippet reader, which is no package and therefore not importable by name."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def snippets() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_snippets", HERE / "snippets.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
