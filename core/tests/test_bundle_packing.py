"""The pack that a runtime's server starts from holds what its modules say, and all that a command needs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import agentix.runtime
from agentix.bundle.packing import import_order
from agentix.bundle.runtime import build_runtime
from agentix.runtime import SERVER_ARGS

LOAD = SERVER_ARGS[1].removesuffix("main()")


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """What runs a program in a runtime of its own."""
    monkeypatch.setenv("AGENTIX_CACHE_DIR", str(tmp_path))
    runtime = build_runtime()
    return (*(word.replace("/agentix/runtime", str(runtime.path), 1) for word in runtime.argv), "-c")


def test_every_module_comes_after_those_that_it_imports() -> None:
    order = import_order(Path(agentix.runtime.__file__).parent)
    assert order[-1] == "server"
    assert order.index("wire") < order.index("call") < order.index("command") < order.index("execution")
    assert {"files", "archive", "transfer"}.isdisjoint(order)


def test_a_server_starts_without_looking_for_its_modules(start: tuple[str, ...]) -> None:
    program = (
        f"import sys; before = set(sys.modules)\n{LOAD}"
        "found = [n for n, m in sys.modules.items() if n not in before and getattr(m, '__spec__', None)]; "
        "print(*sorted(found)); "
        "from agentix.runtime import server; print(main is server.main, server.__file__, server.main.__doc__)"
    )
    result = subprocess.run([*start, program], capture_output=True, text=True, check=True)
    found, main = result.stdout.splitlines()
    assert [name for name in found.split() if name.startswith("agentix")] == []
    # Modules that would cost more than they give are loaded where a call needs them.
    assert {"os", "fcntl", "termios", "_struct", "_heapq", "_ctypes", "__future__"}.isdisjoint(found.split())
    same, file, docstring = main.split()
    assert same == "True"
    assert file.endswith("/agentix/runtime/server.py") and file.startswith("/agentix/runtime/lib")
    assert docstring == "None"


def test_the_rest_of_the_package_imports_as_ever(start: tuple[str, ...]) -> None:
    program = f"{LOAD}from agentix.runtime import files, wire; print(files.wire is wire)"
    assert subprocess.run([*start, program], capture_output=True, text=True, check=True).stdout == "True\n"
