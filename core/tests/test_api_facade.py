"""The facade is complete, exact and free of cost."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import agentix.api
import agentix.errors
import agentix.interfaces
import agentix.models

SOURCE = ast.parse(Path(agentix.api.__file__).read_text())


def imported_for_type_checkers() -> set[str]:
    block = next(node for node in SOURCE.body if isinstance(node, ast.If))
    return {
        alias.asname or alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }


def test_all_is_sorted_and_without_duplicates() -> None:
    def constants_classes_functions(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[0].isupper() else 2), name

    assert agentix.api.__all__ == sorted(set(agentix.api.__all__), key=constants_classes_functions)


def test_every_name_is_there_and_is_what_its_home_has() -> None:
    for name in agentix.api.__all__:
        value = getattr(agentix.api, name)
        module, attribute = agentix.api._home(name)
        assert value is getattr(sys.modules[module], attribute), name


def test_type_checkers_and_programs_see_the_same_names() -> None:
    assert imported_for_type_checkers() == set(agentix.api.__all__)
    homes = {name for names in agentix.api._HOMES.values() for name in names} | set(agentix.api._RENAMED)
    assert homes == set(agentix.api.__all__)


@pytest.mark.parametrize("package", [agentix.errors, agentix.models, agentix.interfaces], ids=lambda p: p.__name__)
def test_contracts_models_and_errors_are_all_offered(package: object) -> None:
    assert set(package.__all__) <= set(agentix.api.__all__)  # type: ignore[attr-defined]


def test_a_name_that_is_not_offered_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match=r"module 'agentix\.api' has no attribute 'nope'"):
        agentix.api.nope  # noqa: B018


def test_a_star_import_and_dir_give_the_offered_names() -> None:
    names: dict[str, object] = {}
    exec("from agentix.api import *", names)
    assert set(agentix.api.__all__) <= set(names)
    assert set(agentix.api.__all__) <= set(dir(agentix.api))


def test_importing_it_loads_nothing() -> None:
    script = (
        "import sys; before = set(sys.modules); import agentix.api; dir(agentix.api); "
        "print(*sorted(m for m in set(sys.modules) - before if not m.startswith('agentix')))"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    loaded = {module.partition(".")[0] for module in out.split()}
    assert loaded <= sys.stdlib_module_names
    assert "asyncio" not in loaded


def test_an_error_class_costs_no_third_party_import() -> None:
    script = (
        "import sys; from agentix.api import ConfigError, PluginInfo; "
        "print(*[m for m in ('pydantic', 'anyio', 'stevedore', 'pluggy', 'docker', 'kubernetes') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.split() == []
