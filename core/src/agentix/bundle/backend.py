"""Builds a project's wheel by its own build backend (PEP 517), in an environment that is kept for the next time."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentix.bundle.listing import TIME_NS
from agentix.bundle.pip import run, run_pip
from agentix.bundle.project import Project
from agentix.bundle.store import Store
from agentix.errors import BundleError

_READY = ".ready"

# Runs in the build environment. What the backend wants besides is told by the file that it writes.
_HOOK = """
import importlib, json, os, sys
backend, places, known, out, answer = json.loads(sys.argv[1])
sys.path[:0] = [os.path.join(os.getcwd(), place) for place in places]
module, _, attributes = backend.partition(":")
found = importlib.import_module(module)
for name in filter(None, attributes.split(".")):
    found = getattr(found, name)
ask = getattr(found, "get_requires_for_build_wheel", None)
wants = sorted(set(ask() if ask else ()) - set(known))
built = None if wants else found.build_wheel(out)
with open(answer, "w", encoding="utf-8") as file:
    json.dump([wants, built], file)
"""


def build_wheel(project: Project, *, store: Store, work: Path, refresh: bool = False) -> Path:
    """Build the wheel of a project, without leaving anything in its directory where its backend can do so.

    Args:
        project: What to build.
        store: Where build environments are kept.
        work: A directory for this build.
        refresh: Make the build environment anew.

    Raises:
        BundleError: The backend cannot be had, or the build failed.
    """
    assert project.build is not None
    out = work / f"wheel-{len(list(work.glob('wheel-*')))}"
    out.mkdir()
    requires = sorted(set(project.build.requires))
    for _ in range(2):
        with _environment(requires, store=store, work=work, refresh=refresh) as python:
            wants, built = _ask(project, python, known=requires, out=out, work=work)
        if not wants:
            return out / str(built)
        requires = sorted({*requires, *wants})
    raise BundleError(f"building {project.path} failed: its backend never has all that it asks for: {', '.join(wants)}")


def _ask(
    project: Project, python: Path, *, known: Sequence[str], out: Path, work: Path
) -> tuple[list[str], str | None]:
    assert project.build is not None
    # setuptools keeps modules that were deleted since in `build`, and writes its metadata beside the sources.
    scratch, settings, answer = out / "scratch", out / "setup.cfg", out / "answer.json"
    scratch.mkdir(exist_ok=True)
    settings.write_text(f"[build]\nbuild_base = {scratch}\n[egg_info]\negg_base = {scratch}\n", encoding="utf-8")
    question = json.dumps([project.build.backend, project.build.path, known, str(out), str(answer)])
    env = {
        "PATH": f"{python.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "VIRTUAL_ENV": str(python.parent.parent),
        "DIST_EXTRA_CONFIG": str(settings),
        "SOURCE_DATE_EPOCH": str(TIME_NS // 10**9),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    run(
        [str(python), "-I", "-B", "-c", _HOOK, question],
        work=work,
        cwd=project.path,
        env=env,
        what=f"building {project.path}",
    )
    wants, built = json.loads(answer.read_bytes())
    return wants, built


@contextlib.contextmanager
def _environment(requires: Sequence[str], *, store: Store, work: Path, refresh: bool) -> Iterator[Path]:
    """A virtual environment with these requirements; made once, and not removed while it is used."""
    key = hashlib.sha256(json.dumps([sys.version, sys.executable, *requires]).encode()).hexdigest()[:32]
    path = store.builders / key
    python = path / "bin" / "python"
    with (store.builders / f"{key}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        if refresh or not (path / _READY).exists() or not python.exists():
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Scripts have the path in them, so that it cannot be made elsewhere and moved.
            if refresh or not (path / _READY).exists() or not python.exists():
                _make(path, requires, work=work)
            fcntl.flock(lock, fcntl.LOCK_SH)
        os.utime(path / _READY)
        yield python


def _make(path: Path, requires: Sequence[str], *, work: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    run([sys.executable, "-m", "venv", "--without-pip", str(path)], work=work, what="making a build environment")
    if requires:
        what = f"installing the build requirements {', '.join(requires)}"
        run_pip("install", ["--quiet", *requires], python=path / "bin" / "python", work=work, what=what)
    (path / _READY).touch()
