"""`agentix cases`: what would run, and from which bytes."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from killing import is_there

from agentix.api import content_hash

CODE = "import sys; from agentix_console import agentix; sys.exit(agentix())"


NEEDS = """
from pydantic import BaseModel
from agentix.api import Scope


class Nothing(BaseModel):
    pass


class step:
    scopes = frozenset({Scope.PER_TRIAL})
    Inputs = Nothing
    executes = True

    def check(self, inputs, *, agents=(), limits=None):
        yield "the Harbor CLI is not there"

    async def run(self, ctx, inputs):
        raise AssertionError
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        (tmp_path / "cases" / name).mkdir(parents=True)
        (tmp_path / "cases" / name / "task.toml").write_text(f"# {name}\n")
    (tmp_path / "tmp").mkdir()
    (tmp_path / "e.yaml").write_text(
        'kind: Experiment\nname: nightly\ncases: [{path: "cases/*"}]\nmatrix: {agents: [oracle, mine], trials: 2}\n'
        "---\nkind: Commands\nagent_mine: {run: ['true']}\n"
    )
    return tmp_path


def cases(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CODE, "cases", *arguments],
        cwd=place,
        env={**os.environ, "TMPDIR": str(place / "tmp"), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def test_it_lists_what_would_run_and_keeps_nothing(place: Path) -> None:
    done = cases(place, "e.yaml")
    assert done.returncode == 0, done.stderr
    one = content_hash(place / "cases" / "one")[:12]
    assert f"case 1/2 cases/one -> {one} (local)" in done.stderr
    assert f"one   {one}       3  local   cases/one" in done.stdout
    assert done.stdout.endswith("matrix: 6 trials across 2 cases (oracle ran once: deterministic)\n")
    assert list((place / "tmp").iterdir()) == []
    assert not (place / "runs").exists()


def test_a_case_under_two_names_comes_from_one_place(place: Path) -> None:
    text = (place / "e.yaml").read_text()
    (place / "e.yaml").write_text(
        text.replace('[{path: "cases/*"}]', "[{path: cases/one}, {path: cases/one, id: again}]")
    )
    done = cases(place, "e.yaml")
    assert [line.split()[-1] for line in done.stdout.splitlines()[1:3]] == ["cases/one", "cases/one"]
    assert "case 2/2 cases/one (again) -> " in done.stderr


def test_as_json_it_is_one_object_with_every_trial(place: Path) -> None:
    found = json.loads(cases(place, "e.yaml", "--json", "--case", "t*").stdout)
    assert found["experiment"] == "nightly"
    assert found["sha256"] == hashlib.sha256((place / "e.yaml").read_bytes()).hexdigest()
    [two] = found["cases"]
    assert two["sha256"] == content_hash(place / "cases" / "two")
    assert two["trials"] == ["two-oracle-1", "two-mine-1", "two-mine-2"]
    assert two["pin"] == {"path": str(place / "cases" / "two")}


def test_what_is_wrong_is_an_exit_code_of_2_with_file_and_line(place: Path) -> None:
    (place / "e.yaml").write_text('kind: Experiment\nname: n\ncases: [{path: "cass/*"}]\nmatrix: {agents: [oracle]}\n')
    done = cases(place, "e.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "e.yaml:3: cases[0].path: cass/*: nothing matches it" in done.stderr
    done = cases(place, "e.yaml", "--case", "x")
    assert done.returncode == 2


def test_a_tampered_file_is_refused_before_anything_is_fetched(place: Path) -> None:
    (place / "ops.yaml").write_text(f"kind: Commands\nharbor: {{uses: harbor.sh, sha256: '{'0' * 64}'}}\n")
    (place / "harbor.sh").write_text("#!/bin/sh\n")
    (place / "e.yaml").write_text("kind: Experiment\nname: n\ncases: [{path: cases/one}]\nmatrix: {agents: [oracle]}\n")
    done = cases(place, "e.yaml", "--commands", "ops.yaml")
    assert done.returncode == 2
    assert "is pinned to 000" in done.stderr
    assert "case 1/1" not in done.stderr


def test_what_would_run_them_need_not_be_there(place: Path) -> None:
    (place / "needs.py").write_text(NEEDS)
    text = (place / "e.yaml").read_text().replace("agent_mine: {run: ['true']}", "")
    text = text.replace("[oracle, mine]", "[oracle]").replace(
        "kind: Commands\n", "kind: Commands\nnote: {run: [gone]}\n"
    )
    text = text.replace(
        "name: nightly\n", "name: nightly\npipeline: {per_trial: [{uses: './needs.py:step'}, {uses: note}]}\n"
    )
    (place / "e.yaml").write_text(text)
    done = cases(place, "e.yaml")
    assert done.returncode == 0, done.stderr
    assert "matrix: 2 trials across 2 cases" in done.stdout
    # It is told to who runs it.
    run = subprocess.run(
        [sys.executable, "-c", CODE, "run", "e.yaml"],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert run.returncode == 2
    assert "the Harbor CLI is not there" in run.stderr and "'gone'" in run.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_fetch_and_all_that_it_has_started(place: Path, number: int, code: int) -> None:
    (place / "e.yaml").write_text(
        "kind: Commands\nslow: {script: 'setsid sleep 1000 & echo $! > pid; echo ready > go; wait'}\n---\n"
        "kind: Experiment\nname: n\ncases: [{source: git, repo: r, fetch: slow}]\nmatrix: {agents: [oracle]}\n"
    )
    os.mkfifo(place / "go")
    running = subprocess.Popen(
        [sys.executable, "-c", CODE, "cases", "e.yaml"],
        cwd=place,
        env={**os.environ, "TMPDIR": str(place / "tmp")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert (place / "go").read_text() == "ready\n"
    pid = int((place / "pid").read_text())
    assert is_there(pid, place)
    running.send_signal(number)
    assert running.wait(240) == code
    assert not is_there(pid, place)
    assert list((place / "tmp").iterdir()) == []
