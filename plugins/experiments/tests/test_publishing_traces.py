"""Secrets that stand in a file are found there again, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.api import Secrets
from agentix.plugins.experiments.publishing.ledger import Ledger
from agentix.plugins.experiments.publishing.traces import Traces

VALUE = "the-password-of-last-year"


@pytest.fixture
def room(tmp_path: Path) -> Path:
    (tmp_path / "a.yaml").write_text(f"one: {VALUE}\ntwo: x{VALUE}x\n")
    (tmp_path / "b.json").write_text('{"note": "bGFiOnRoZS1wYXNzd29yZC1vZi1sYXN0LXllYXI="}')
    return tmp_path


def remembered(room: Path, *values: str) -> None:
    with Ledger(room / "ledger.jsonl") as ledger:
        traces = Traces(Secrets(values), ledger)
        for name in ("a.yaml", "b.json", "none.md"):
            traces.remember(room / name)


def recalled(room: Path, *values: str) -> frozenset[str]:
    secrets = Secrets(values)
    with Ledger(room / "ledger.jsonl") as ledger:
        Traces(secrets, ledger).recall(room)
    return secrets.values


def test_a_value_is_known_again_by_whoever_has_the_file(room: Path) -> None:
    remembered(room, VALUE, "something-else-altogether")
    found = recalled(room)
    assert VALUE in found and "something-else-altogether" not in found
    assert all(value == VALUE or value in (room / "b.json").read_text() for value in found)
    assert VALUE not in (room / "ledger.jsonl").read_text()


def test_also_after_the_ledger_was_written_anew(room: Path) -> None:
    remembered(room, VALUE)
    with (room / "ledger.jsonl").open("a") as file:
        file.write('{"half')
    assert VALUE in recalled(room)
    assert VALUE in recalled(room)


def test_what_is_known_is_not_looked_for(room: Path) -> None:
    remembered(room, VALUE)
    (room / "a.yaml").unlink()
    (room / "b.json").unlink()
    assert recalled(room, VALUE) == {VALUE}


def test_what_stands_there_no_more_is_not_found_and_another_file_is_not_looked_at(room: Path) -> None:
    remembered(room, VALUE)
    (room / "a.yaml").rename(room / "c.yaml")
    (room / "b.json").write_text("{}")
    assert recalled(room) == frozenset()


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_it_is_found_wherever_it_stands(tmp_path_factory: pytest.TempPathFactory, before: bytes, after: bytes) -> None:
    room = tmp_path_factory.mktemp("room")
    (room / "a.yaml").write_bytes(before + b"\n" + VALUE.encode() + b"\n" + after)
    remembered(room, VALUE)
    assert VALUE in recalled(room)
