"""`make demo` on a copy of this repository, as an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.real

ROOT = Path(__file__).resolve().parents[2]
SOMEBODY = 61_000
FIT = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory outside of pytest's, which nobody else may enter."""
    folder = Path(tempfile.mkdtemp(prefix="agentix-demo-"))
    yield folder
    shutil.rmtree(folder)


def test_an_ordinary_user_sees_the_demo(home: Path) -> None:
    if subprocess.run(["/usr/bin/python3", "-c", FIT], capture_output=True, check=False).returncode:
        pytest.skip("needs a /usr/bin/python3 of 3.11 or newer with venv (Debian: python3-venv)")
    copy = home / "agentix"
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, files):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "REQUESTS_"))}
    env = {**kept, "PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
    argv = ["make", "demo"]
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{SOMEBODY}:{SOMEBODY}", home], check=True)
        argv = ["setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups", *argv]
    done = subprocess.run(argv, cwd=copy, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 trials: 5 resolved" in done.stdout
    assert "5 trials: 1 resolved" in done.stdout
    runs = sorted((copy / "runs").glob("*/results.jsonl"))
    assert [len(run.read_text().splitlines()) for run in runs] == [5, 5]
    for run in runs:
        assert str(run.relative_to(copy)) in done.stdout
