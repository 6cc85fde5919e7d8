"""The snippet runner fails where a page is wrong."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def run_page(snippets: ModuleType, tmp_path: Path) -> Any:
    def run(text: str) -> dict[str, Any]:
        page = tmp_path / "page.md"
        page.write_text(text)
        names: dict[str, Any] = {}
        for block in snippets.blocks(page):
            snippets.run(block, cwd=tmp_path, names=names, env=os.environ)
        return names

    return run


def test_python_blocks_share_names_and_may_await(run_page: Any) -> None:
    names = run_page("```python\nx = 1\n```\ntext\n```python\nimport anyio\nawait anyio.sleep(0)\ny = x + 1\n```\n")
    assert names["y"] == 2


def test_an_exception_is_placed_at_its_line_of_the_page(run_page: Any) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run_page("# Title\n\n```python\na = 1\n1 / 0\n```\n")
    assert caught.traceback[-1].lineno == 5 - 1


def test_a_file_block_is_written_and_runnable_when_it_is_a_script(run_page: Any, tmp_path: Path) -> None:
    run_page("```sh file=sub/hello.sh\n#!/bin/sh\necho hello\n```\n```console\n$ ./sub/hello.sh\nhello\n```\n")
    assert os.access(tmp_path / "sub/hello.sh", os.X_OK)


@pytest.mark.parametrize(
    "body",
    [
        "$ false",
        "$ true  # exit 1",
        "$ echo one\ntwo",
        "$ printf 'a\\nb\\n'\na",
        "$ printf 'a\\nb\\n'\nb",
    ],
)
def test_a_console_block_that_is_not_true_fails(run_page: Any, body: str) -> None:
    with pytest.raises(AssertionError):
        run_page(f"```console\n{body}\n```\n")


@pytest.mark.parametrize(
    "body",
    [
        "$ exit 3  # exit 3",
        "$ echo one two\none …",
        "$ printf 'a\\nb\\nc\\n'\na\n…",
        "$ printf 'a\\nb\\nc\\n'\n…\nc",
        "$ echo a \\\n    b\na b",
        "$ echo a\na\n\n$ echo b\nb",
    ],
)
def test_a_console_block_that_is_true_passes(run_page: Any, body: str) -> None:
    run_page(f"```console\n{body}\n```\n")


@pytest.mark.parametrize(("language", "body"), [("toml", "a = "), ("json", "{")])
def test_data_that_does_not_parse_fails(run_page: Any, language: str, body: str) -> None:
    with pytest.raises(ValueError):
        run_page(f"```{language}\n{body}\n```\n")
