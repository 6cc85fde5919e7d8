"""Scripts that start programs of a tree from wherever it is mounted, with nothing but a shell."""

from __future__ import annotations

from pathlib import Path

# A shell that looked a script up on PATH gives it its whole path; by hand, it may be a relative one or a mere name.
_HEAD = """#!/bin/sh
case $0 in
  /*) here=${0%/*} ;;
  */*) here=$PWD/${0%/*} ;;
  *) here=$PWD ;;
esac
"""


def write_launcher(path: Path, lines: str) -> None:
    """Write a script.

    Args:
        path: Where.
        lines: Lines of shell, in which `$here` is the absolute path of the script's directory.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{_HEAD}{lines}\n", encoding="utf-8")
    path.chmod(0o755)
