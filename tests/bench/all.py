"""Runs every benchmark of this directory and writes docs/benchmarks.md.

Each script runs in a process of its own, so that none measures the memory or the threads of another.
"""

from __future__ import annotations

import ast
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from table import Row, markdown

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "benchmarks.md"
NOT_BENCHMARKS = {"all.py", "rates.py", "table.py"}
LONG = {"long_run.py"}
"""Looks for leaks over thousands of sandboxes, which takes minutes: it is run by itself."""

ROWS_AS_JSON = """
import dataclasses, importlib, json, sys
sys.path.insert(0, {here!r})
rows = importlib.import_module({name!r}).rows()
print("\\n" + json.dumps([dataclasses.asdict(row) for row in rows]))
"""


PREAMBLE = """\
# Benchmarks

Written by `make bench`; every figure was measured in one go, on one machine, at one commit. A *bare loop* does the same
work without agentix in the same run (for `local`, an interpreter started by bubblewrap alone); a ratio of 1.0 is as
fast as the bare loop.

- machine: {machine}, load {load:.1f} before it began
- Python {python}, commit {commit}, {seconds:.0f} s in total

```sh
make bench
```"""


def benchmarks() -> list[Path]:
    """The scripts that have rows to give."""
    return sorted(script for script in HERE.glob("*.py") if script.name not in NOT_BENCHMARKS | LONG)


def measure(script: Path) -> list[Row]:
    """Run one script and read its rows.

    Raises:
        subprocess.CalledProcessError: The script failed; its error output has been shown.
    """
    code = ROWS_AS_JSON.format(here=str(HERE), name=script.stem)
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    return [Row(**row) for row in json.loads(done.stdout.rstrip().rpartition("\n")[2])]


def summary(script: Path) -> str:
    """The first line of the script's docstring."""
    return (ast.get_docstring(ast.parse(script.read_bytes())) or "").partition("\n")[0]


def page(sections: list[tuple[str, str, list[Row]]], *, seconds: float, load: float) -> str:
    """docs/benchmarks.md, from name, summary and rows of each script."""
    lines = [
        PREAMBLE.format(
            machine=machine(), load=load, python=platform.python_version(), commit=commit(), seconds=seconds
        )
    ]
    for name, what, rows in sections:
        lines += [
            "",
            f"## {name}",
            "",
            what,
            "",
            f"Alone: `.venv/bin/python tests/bench/{name}.py`",
            "",
            markdown(rows).rstrip(),
        ]
    return "\n".join(lines) + "\n"


def machine() -> str:
    """Cores, memory and system, without any name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    kernel = platform.release().split("-")[0]
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {kernel}, {platform.machine()}"


def commit() -> str:
    """The commit that is measured, marked where the tree differs from it."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],
        cwd=HERE,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def main() -> int:
    """Measure, print, write; 1 where a target was missed."""
    started, load, sections = time.monotonic(), os.getloadavg()[0], []
    for script in benchmarks():
        rows = measure(script)
        print(f"{script.stem}\n{markdown(rows)}", flush=True)
        sections.append((script.stem, summary(script), rows))
    PAGE.write_text(page(sections, seconds=time.monotonic() - started, load=load))
    missed = [row.name for _, _, rows in sections for row in rows if row.met is False]
    print(f"written: {PAGE.relative_to(Path.cwd()) if PAGE.is_relative_to(Path.cwd()) else PAGE}")
    if missed:
        print("targets missed: " + ", ".join(missed))
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
