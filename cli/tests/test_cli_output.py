from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from agentix.cli.output import Output, printable
from agentix.cli.table import table


def test_control_characters_cannot_reach_the_terminal():
    assert printable("a\x1b[2Jb\rc\td\x9b") == "a\\x1b[2Jb\\x0dc\td\\x9b"


def test_what_cannot_be_encoded_is_escaped():
    raw = io.BytesIO()
    output = Output(io.TextIOWrapper(raw, encoding="ascii"))
    output.line("größe · \ud800")
    assert raw.getvalue() == b"gr\\xf6\\xdfe \\xb7 \\ud800\n"


def test_no_stream_at_all_swallows():
    output = Output(None)
    output.line("x")
    assert (output.closed, output.is_terminal) == (True, False)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_went_away_ends_nothing(stream):
    read, write = os.pipe()
    os.close(read)
    code = (
        "from agentix.cli.output import Output\n"
        f"output = Output.{stream}()\n"
        "for _ in range(3): output.line('x' * 100000)\n"
        "raise SystemExit(0 if output.closed else 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], **{stream: write}, check=False)
    os.close(write)
    assert done.returncode == 0


@pytest.mark.parametrize("term", ["", "dumb", "unknown"])
def test_a_dumb_terminal_is_none(monkeypatch, term):
    class Tty(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    assert Output(Tty()).is_terminal
    monkeypatch.setenv("TERM", term)
    assert not Output(Tty()).is_terminal


def test_columns_are_as_wide_as_a_terminal_shows_them() -> None:
    assert table(["case", "n"], [["任务一", "1"], ["plain", "10"], ["e\u0301", "2"]], right=frozenset({1})) == [
        "case     n",
        "任务一   1",
        "plain   10",
        "e\u0301        2",
    ]
    assert table(["n", "text"], [["任务", "some words"]], width=30) == ["n     text", "任务  some words"]
    assert table(["n", "text"], [["任务", "word " * 8]], width=30)[1].startswith("任务  word word")


def test_long_names_are_shortened_where_a_table_would_be_too_wide() -> None:
    rows = [["x" * 200 + "-17", "4"], ["一" * 60 + "二", "10"], ["short", "1"]]
    lines = table(["case", "done"], rows, right=frozenset({1}), width=40, shorten=0)
    assert lines[1] == "…" + "x" * 30 + "-17  " + "   4"
    assert lines[2].startswith("…" + "一" * 15 + "二") and lines[2].endswith("  10")
    assert lines[3] == "short" + " " * 29 + "  " + "   1"
    assert table(["case", "done"], rows, width=None, shorten=0)[1].startswith("x" * 200)


def test_the_last_column_stands_below_its_row_where_next_to_nothing_is_left_for_it() -> None:
    rows = [["a" * 40, "words " * 12 + "end"], ["b", "short"]]
    lines = "\n".join(table(["n", "text"], rows, width=60)).splitlines()
    assert lines[1] == "a" * 40
    assert lines[2:-1] == ["    " + "words " * 8 + "words", "    words words words end"]
    assert lines[-1] == "b" + " " * 41 + "short"


def test_the_last_column_of_a_table_is_folded_where_it_would_be_too_wide() -> None:
    rows = [["a", "two words and a-hyphen"], ["bb", "x" * 30], ["c", "short"]]
    assert table(["n", "text"], rows, width=28) == [
        "n   text",
        "a   two words and a-hyphen",
        f"bb  {'x' * 24}\n    {'x' * 6}",
        "c   short",
    ]
    assert table(["n", "text"], rows[:1], width=16) == ["n  text", "a  two words and a-hyphen"]
    assert table(["n", "text"], rows)[2] == f"bb  {'x' * 30}"
