"""What a user may write to name a plugin that is not installed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.errors import ConfigError, PluginBroken, PluginNotFound
from agentix.registry import KINDS, load
from agentix.registry.references import EntryRef, FileRef, ModuleRef, parse_reference

AGENT = "class {name}:\n    async def solve(self, sandbox, instance, *, model): return {value!r}\n"


@pytest.fixture(autouse=True)
def unchanged_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("local", EntryRef("local")),
        ("agent:local", EntryRef("local")),
        ("my-dist/local", EntryRef("local", "my-dist")),
        ("agent:my-dist/local", EntryRef("local", "my-dist")),
        ("my_pkg:thing", ModuleRef("my_pkg", "thing")),
        ("my_pkg.sub:Thing.attr", ModuleRef("my_pkg.sub", "Thing.attr")),
        ("./x.py", FileRef(Path("x.py"), "agent")),
        ("x.py", FileRef(Path("x.py"), "agent")),
        ("some dir/x.py:make", FileRef(Path("some dir/x.py"), "make")),
        ("/abs/odd:name.py:make", FileRef(Path("/abs/odd:name.py"), "make")),
        ("agent:./x.py", FileRef(Path("x.py"), "agent")),
    ],
)
def test_each_form_is_taken_apart(text: str, expected: object) -> None:
    assert parse_reference("agent", text, where="--agent") == expected


@pytest.mark.parametrize(
    "text", ["", " ", "my-dist:local", "a:b:c", "./x", "/abs", "~/x.txt", "dist/", "/", ":x", "x:"]
)
def test_anything_else_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--agent: ") as error:
        parse_reference("agent", text, where="--agent")
    assert error.value.hint


def test_a_reference_to_another_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="names a dataset, not an agent"):
        parse_reference("agent", "dataset:harbor", where="--agent")


@given(st.text(max_size=40), st.sampled_from(["dataset", "agent", "provider", "step", "transport"]))
def test_no_text_makes_the_parser_fail_otherwise(text: str, kind: str) -> None:
    assert kind in KINDS
    try:
        parse_reference(kind, text, where="x")  # type: ignore[arg-type]
    except ConfigError as exc:
        assert str(exc).startswith("x: ")


def test_the_attribute_of_a_file_defaults_to_the_kind(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(AGENT.format(name="agent", value="x"))
    assert type(load("agent", f"{tmp_path}/mine.py", where="--agent")).__name__ == "agent"


def test_a_file_imports_its_siblings_also_inside_functions(tmp_path: Path) -> None:
    (tmp_path / "sibling_of_mine.py").write_text("value = 41\n")
    (tmp_path / "late_sibling.py").write_text("value = 42\n")
    (tmp_path / "mine.py").write_text(
        "import sibling_of_mine\n"
        "class Mine:\n"
        "    early = sibling_of_mine.value\n"
        "    async def solve(self, sandbox, instance, *, model): ...\n"
        "    def late(self):\n"
        "        import late_sibling\n"
        "        return late_sibling.value\n"
    )
    agent = load("agent", f"{tmp_path}/mine.py:Mine", where="--agent")
    assert (agent.early, agent.late()) == (41, 42)  # type: ignore[attr-defined]


def test_files_of_one_name_and_their_siblings_do_not_mix(tmp_path: Path) -> None:
    for directory in ("one", "two"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "shared_name.py").write_text(f"value = {directory!r}\n")
        (tmp_path / directory / "mine.py").write_text(
            "import shared_name\n"
            "class Mine:\n"
            "    value = shared_name.value\n"
            "    async def solve(self, sandbox, instance, *, model): ...\n"
        )
    values = [load("agent", f"{tmp_path}/{d}/mine.py:Mine", where="x").value for d in ("one", "two", "one")]  # type: ignore[attr-defined]
    assert values == ["one", "two", "one"]


def test_a_file_cannot_take_the_place_of_a_module(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(AGENT.format(name="agent", value="x"))
    load("agent", f"{tmp_path}/json.py", where="--agent")
    import json

    assert json.loads("1") == 1
    assert sys.path[0] != str(tmp_path)


def test_one_file_is_one_module_until_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "both.py"
    file.write_text(AGENT.format(name="agent", value="old"))
    first, second = (type(load("agent", str(file), where="x")) for _ in range(2))
    assert first is second
    file.write_text(AGENT.format(name="agent", value="newer"))
    os.utime(file, ns=(1, 1))
    assert type(load("agent", str(file), where="x")) is not first


def test_an_absent_file_and_attribute_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--agent: there is no file .*absent\.py"):
        load("agent", f"{tmp_path}/absent.py", where="--agent")
    (tmp_path / "mine.py").write_text(AGENT.format(name="Mine", value="x"))
    with pytest.raises(ConfigError, match=r"has no attribute 'mine'\n  did you mean 'Mine'\?"):
        load("agent", f"{tmp_path}/mine.py:mine", where="--agent")


@pytest.mark.parametrize("source", ["raise SystemExit", "import nosuchmod", "1 +", "\0"])
def test_a_file_that_fails_is_broken_and_leaves_nothing(tmp_path: Path, source: str) -> None:
    file = tmp_path / "bad.py"
    file.write_text(source)
    before = set(sys.modules)
    with pytest.raises(PluginBroken, match="failed to load") as error:
        load("agent", str(file), where="--agent")
    assert error.value.__cause__ is not None
    assert not [name for name in set(sys.modules) - before if name.startswith("agentix_file_")]


def test_a_module_of_the_working_directory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_of_mine.py").write_text(AGENT.format(name="Mine", value="x"))
    monkeypatch.chdir(tmp_path)
    assert type(load("agent", "module_of_mine:Mine", where="--agent")).__name__ == "Mine"


def test_an_absent_module_is_told_from_a_broken_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_of_mine.py").write_text("import nosuchmod\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PluginNotFound, match="there is no module 'nosuch'"):
        load("agent", "nosuch.module:attr", where="--agent")
    with pytest.raises(PluginBroken, match="No module named 'nosuchmod'"):
        load("agent", "module_of_mine:attr", where="--agent")
