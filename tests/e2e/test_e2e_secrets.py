"""Keys that are handed to a program in the sandbox."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.real

KEY = f"sk-CANARY-{uuid.uuid4().hex[:10]}"
TYPED = f"sk-TYPED-{uuid.uuid4().hex[:10]}"
"""A key that stands on a command line, where the watcher of another test at the same time sees it."""


@pytest.fixture
def command_lines() -> Iterator[list[str]]:
    """The command lines, of the whole machine, that held the key at any time meanwhile."""
    seen: list[str] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.005):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    line = file.read_bytes()
                    if KEY.encode() in line:
                        seen.append(line.decode(errors="replace"))

    watching = threading.Thread(target=watch)
    watching.start()
    yield seen
    over.set()
    watching.join()


def test_a_key_is_on_no_command_line_and_in_no_file_of_the_run(shop: Any, command_lines: list[str]) -> None:
    body = """
        [ "${#MY_KEY}" = LENGTH ] && echo the key is there
        for n in 1 2 3 4 5; do cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -a '[C]ANARY'; sleep 0.1; done
        echo 42 > /app/answer.txt
    """.replace("LENGTH", str(len(KEY)))
    toml = 'schema_version = "1.0"\n[environment]\nnetwork_mode = "no-network"\n[verifier.env]\nJUDGE = "${MY_KEY}"\n'
    check = f'sleep 0.3; [ "${{#JUDGE}}" = {len(KEY)} ] && echo 1 > /logs/verifier/reward.txt'
    shop.task("keyed", toml=toml, test=check)
    script = shop.script("agent.sh", body)
    done = shop.run(
        *("--agent", "command", "--agent-opt", f"script={script}", "--agent-opt", "pass_env=MY_KEY"),
        env={"MY_KEY": KEY},
    )
    assert done.records[0]["reward"] == 1.0
    (said,) = done.run_dir.rglob("agent-stdout.txt")
    assert said.read_text() == "the key is there\n"
    assert command_lines == []
    holding = [file for file in done.run_dir.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()]
    assert holding == []


def test_a_key_inside_an_option_is_not_kept(shop: Any) -> None:
    shop.task("answer")
    options = ("--agent-opt", "command=true", "--agent-opt", f'env={{"MY_KEY": "{TYPED}"}}')
    done = shop.run("--agent", "command", *options)
    assert done.code == 0
    assert [f for f in done.run_dir.rglob("*") if f.is_file() and TYPED.encode() in f.read_bytes()] == []
    assert TYPED not in done.said
    other = shop.run("--agent", "command", *(word.replace(TYPED, "sk-OTHER") for word in options))
    assert other.code == 2 and "agent option env" in other.err
