"""Experiments that publish, and a look at what of them went out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

COMMANDS = """
---
kind: Commands
take:
  script: |
    mkdir -p "@/sent/$DEST"
    cp -r "$RUN_DIR/." "@/sent/$DEST/run"
    cp -r "$LOCAL_PATH" "@/sent/$DEST/path"
    echo took it
gone: {script: 'echo the bucket is gone >&2; exit 3'}
refuse: {script: 'case $TRIAL_ID in a-*) exit 1;; esac'}
"""
MODEL = """
---
kind: LLMSpec
name: m
model: x
api_key_env: THE_KEY
"""
SHIP = "  per_experiment: [{uses: ship, with: {using: take, dest: x}}]\n"
"""What `take` was given is below `sent/x`: the tree as `run`, and what was to be shipped as `path`."""


def write(lab: Any, pipeline: str, *, matrix: str = "{agents: [someone]}", commands: str = "", head: str = "") -> Path:
    """An experiment file with the commands above."""
    text = (COMMANDS + commands).replace("@", str(lab.root)) + head
    path: Path = lab.file(f"{text}---\nmatrix: {matrix}\npipeline:\n{pipeline}")
    return path


def names(place: Path) -> list[str]:
    """The files below a directory."""
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())


def holding(place: Path, what: bytes) -> list[str]:
    """What below a directory has these bytes in it or in its name."""
    found = [str(path) for path in place.rglob("*") if path.is_file() and what in path.read_bytes()]
    return found + [str(path) for path in place.rglob("*") if what in os.fsencode(path.relative_to(place))]
