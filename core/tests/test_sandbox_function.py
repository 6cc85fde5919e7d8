"""Which functions can be called in a sandbox."""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from agentix.bundle import MountedBundle
from agentix.bundle.description import Description, Entry
from agentix.errors import UsageError
from agentix.sandbox.function import Main, Place, Reference, refer
from agentix.sandbox.rebuilding import rebuilder

sys.path.append(str(Path(__file__).parent / "functions"))
calls: Any = importlib.import_module("remote_functions")

HOST = Place(shares_host=True)


def bundle_of(**files: str) -> MountedBundle:
    entries = [
        Entry(path=path, size=len(text), sha256=hashlib.sha256(text.encode()).hexdigest())
        for path, text in sorted(files.items())
    ]
    fields: dict[str, Any] = {"name": "kit", "tag": "1", "platform": "linux/amd64", "python": "3.11"}
    return MountedBundle(description=Description.of(**fields, entries=tuple(entries)))


@pytest.mark.parametrize(
    ("function", "message", "hint"),
    [
        (lambda: None, "a lambda has no name", "write a def"),
        (calls.nested(), "nested.<locals>.inner is defined inside a function", "top level"),
        (calls.Odd().method, "Odd.method is bound to an object", "takes the object as an argument"),
        ([].append, "list.append is bound to an object", "argument"),
        (calls.Odd.static, "Odd.static is part of a class", "top level"),
        (functools.partial(calls.add, 1), "a functools.partial", "pass its function"),
        (calls.Odd, "the class Odd is no function", "pass a function"),
        (7, "an object of int is no function", "pass a function"),
        (functools.cache(calls.add), "is not this function", "functools.wraps"),
        (calls.count, "count is a generator", "remote_iter"),
        (calls.count_blocking, "count_blocking is a generator", "remote_iter"),
    ],
)
def test_what_a_sandbox_cannot_import_is_refused_with_the_way_out(function: Any, message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        refer(function, HOST, iterate=False)
    assert hint in (caught.value.hint or "")


def test_an_async_function_is_no_iterator() -> None:
    with pytest.raises(UsageError, match="add returns one value") as caught:
        refer(calls.add, HOST, iterate=True)
    assert caught.value.hint == "await sandbox.remote(…)"


def test_functions_are_found_by_module_and_name() -> None:
    assert refer(calls.add, HOST, iterate=False) == Reference(name="remote_functions:add")
    assert refer(json.dumps, Place(), iterate=False) == Reference(name="json:dumps")


def test_a_module_that_is_not_in_the_sandbox_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(UsageError, match="is not in the sandbox, which has no bundle") as caught:
        refer(calls.add, Place(), iterate=False)
    assert "agentix build" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="the module remote_functions of add is not in the bundle kit"):
        refer(calls.add, Place(bundle=bundle_of(**{"site/other.py": ""})), iterate=False)
    place = Place(bundle=bundle_of(**{"site/remote_functions.py": ""}))
    assert refer(calls.add, place, iterate=False).name == "remote_functions:add"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A script of the user's, as `__main__`."""
    (tmp_path / "src/kit").mkdir(parents=True)
    file = tmp_path / "src/kit/evaluate.py"
    file.write_text("def score(): return 1\n")
    module = types.ModuleType("__main__")
    module.__file__ = str(file)
    exec(compile(file.read_text(), str(file), "exec"), vars(module))
    monkeypatch.setitem(sys.modules, "__main__", module)
    return module


def test_a_function_of_the_script_is_found_in_its_file(script: Any) -> None:
    found = refer(script.score, HOST, iterate=False)
    assert found == Reference(name="__main__:score", main=Main(module="evaluate", file=script.__file__))


def test_a_function_of_the_script_is_found_in_its_module_of_the_bundle(script: Any) -> None:
    text = Path(script.__file__).read_text()
    place = Place(bundle=bundle_of(**{"site/evaluate.py": text, "site/kit/evaluate.py": text, "site/x.py": text}))
    found = refer(script.score, place, iterate=False)
    assert found == Reference(name="kit.evaluate:score", main=Main(module="kit.evaluate"))


def test_a_script_that_changed_since_the_build_is_refused(script: Any) -> None:
    place = Place(bundle=bundle_of(**{"site/kit/evaluate.py": "def score(): return 0\n"}))
    with pytest.raises(UsageError, match="has changed since it was built into the bundle kit"):
        refer(script.score, place, iterate=False)
    with pytest.raises(UsageError, match="is not in the bundle kit"):
        refer(script.score, Place(bundle=bundle_of(**{"site/other.py": ""})), iterate=False)
    with pytest.raises(UsageError, match="has no bundle"):
        refer(script.score, Place(), iterate=False)


def test_a_function_that_was_typed_in_is_refused(script: Any) -> None:
    del script.__file__
    with pytest.raises(UsageError, match="typed into this session"):
        refer(script.score, HOST, iterate=False)


SCRIPT = """
import dataclasses, anyio
from agentix.api import HostProcessProvider, SandboxConfig

@dataclasses.dataclass
class Point:
    x: int

def double(point: Point) -> Point:
    return Point(point.x * 2)

async def main():
    async with HostProcessProvider().session(SandboxConfig()) as sandbox:
        print(await sandbox.remote(double, Point(4)))

if __name__ == "__main__":
    anyio.run(main)
"""


@pytest.mark.parametrize("module", [False, True])
def test_a_script_calls_its_own_functions_with_its_own_classes(tmp_path: Path, module: bool) -> None:
    (tmp_path / "mine.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "mine"] if module else [sys.executable, "mine.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "Point(x=8)\n", done.stderr


def test_annotations_that_cannot_be_rebuilt_are_refused_before_the_call() -> None:
    with pytest.raises(UsageError, match="annotation 'Missing' of unresolved cannot be resolved") as caught:
        rebuilder(calls.unresolved, iterate=False)
    assert "TYPE_CHECKING" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="annotation Odd of odd cannot be made of plain data"):
        rebuilder(calls.odd, iterate=False)
