"""Finds pip and runs it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentix.bundle.store import full
from agentix.errors import BundleError

_LINES = 12
_FLAGS = ("--disable-pip-version-check", "--no-input", "--no-color", "--progress-bar", "off")


def run_pip(command: str, arguments: Sequence[str], *, work: Path, python: Path | None = None, what: str) -> None:
    """Run pip, with its temporary files in `work`.

    Args:
        command: Such as `wheel`.
        arguments: What follows it.
        work: A directory that is removed later, whatever happens.
        python: The interpreter to act for; this one by default.
        what: What is being done, for the error.

    Raises:
        BundleError: It failed; the message has the end of what it said.
    """
    chosen = () if python is None else ("--python", str(python))
    run([*find_pip(), *chosen, command, *_FLAGS, *arguments], work=work, what=what)


def run(
    command: Sequence[str], *, work: Path, what: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Run a program of a build and return what it printed.

    Raises:
        BundleError: It failed, or does not exist.
        HostError: The disk is full.
    """
    scratch = work / "tmp"
    scratch.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        done = subprocess.run(
            command,
            cwd=cwd or work,
            env={**kept, "TMPDIR": str(scratch), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    except OSError as error:
        raise BundleError(f"{what} failed: {command[0]}: {error.strerror}") from error
    said = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        if "No space left on device" in said or "ENOSPC" in said:
            raise full(work.parent)
        lines = [line.rstrip() for line in said.splitlines() if line.strip()]
        tail = "\n  ".join(lines[-_LINES:]) or f"exit code {done.returncode}"
        raise BundleError(f"{what} failed:\n  {tail}")
    return said


def find_pip() -> tuple[str, ...]:
    """How to start a pip that acts for this interpreter: its own, the one that Python brings, or uv's.

    Raises:
        BundleError: There is none.
    """
    if importlib.util.find_spec("pip") is not None:
        return (sys.executable, "-m", "pip")
    spec = importlib.util.find_spec("ensurepip")
    places = [Path("/usr/share/python-wheels")]
    if spec is not None and spec.origin:
        places.insert(0, Path(spec.origin).parent / "_bundled")
    for wheel in (found for place in places for found in sorted(place.glob("pip-*.whl"), reverse=True)):
        return (sys.executable, str(wheel / "pip"))
    if uv := shutil.which("uv"):
        return (uv, "tool", "run", "--quiet", "--python", sys.executable, "pip")
    raise BundleError(
        f"there is no pip for {sys.executable}", hint="install pip there (python -m ensurepip), or put uv on PATH"
    )
