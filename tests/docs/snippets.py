"""Reads the fenced blocks of a markdown page and runs them.

- `python`: executed, top-level `await` allowed; the blocks of a page share their names.
- `python file=NAME` (any language): written to NAME in the working directory.
- `console`: each line after `$ ` is a shell command and must succeed, or exit as `# exit N` says; the lines below it
  are what it prints, where `…` stands for anything and a line that is only `…` for any number of lines.
- `toml` and `json`: parsed.
- Anything else (`sh`, `text`) is only read by people.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL)
_EXIT = re.compile(r"\s+# exit (\d+)$")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    """Of its first line of content."""
    language: str
    attributes: Mapping[str, str]
    body: str


@dataclass(frozen=True)
class Command:
    """One command of a `console` block."""

    line: int
    text: str
    status: int
    printed: list[str] = field(default_factory=list)


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text()
    found = []
    for match in _FENCE.finditer(text):
        language, *words = match["info"].split() or [""]
        attributes = dict(word.partition("=")[::2] for word in words)
        found.append(Block(page, text.count("\n", 0, match.start("body")) + 1, language, attributes, match["body"]))
    return found


def commands(block: Block) -> Iterator[Command]:
    """The commands of a `console` block with what they print."""
    current: Command | None = None
    for number, line in enumerate(block.body.splitlines(), block.line):
        if current and current.text.endswith("\\") and not current.printed:
            current = Command(current.line, f"{current.text}\n{line.removeprefix('> ')}", current.status)
        elif line.startswith("$ "):
            if current:
                yield _with_status(current)
            current = Command(number, line[2:], 0)
        elif current:
            current.printed.append(line)
        else:
            raise ValueError(f"{block.page}:{number}: a console block starts with a command")
    if current:
        yield _with_status(current)


def _with_status(command: Command) -> Command:
    if match := _EXIT.search(command.text):
        return Command(command.line, command.text[: match.start()], int(match[1]), command.printed)
    return command


def agrees(printed: list[str], shown: list[str]) -> bool:
    """Whether what a command printed is what the page shows."""
    lines = [line.rstrip() for line in shown]
    while lines and not lines[-1]:
        lines.pop()
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", ".*") + r"[ \t]*\n" for line in lines
    )
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed).rstrip("\n") + "\n") is not None


def run(block: Block, *, cwd: Path, names: dict[str, Any], env: Mapping[str, str]) -> None:
    """Run one block.

    Args:
        block: What to run.
        cwd: The working directory; the process is expected to be in it already.
        names: Names that the earlier Python blocks of the page have defined.
        env: Environment of commands.
    """
    if "file" in block.attributes:
        target = cwd / block.attributes["file"]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(block.body)
        if block.body.startswith("#!"):
            target.chmod(0o755)
    elif block.language == "python":
        _run_python(block, names)
    elif block.language == "console":
        for command in commands(block):
            _run_command(block, command, cwd=cwd, env=env)
    elif block.language == "toml":
        tomllib.loads(block.body)
    elif block.language == "json":
        json.loads(block.body)


def _run_python(block: Block, names: dict[str, Any]) -> None:
    source = "\n" * (block.line - 1) + block.body
    code = compile(source, str(block.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:

        async def main() -> None:
            await eval(code, names)

        asyncio.run(main())
    else:
        exec(code, names)


def _run_command(block: Block, command: Command, *, cwd: Path, env: Mapping[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command.text],
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    where = f"{block.page.name}:{command.line}: $ {command.text}"
    assert done.returncode == command.status, f"{where}\nexit {done.returncode}, not {command.status}\n{done.stdout}"
    if any(line.strip() for line in command.printed):
        shown = "\n".join(command.printed)
        assert agrees(done.stdout.splitlines(), command.printed), f"{where}\nprinted\n{done.stdout}\nbut shows\n{shown}"
