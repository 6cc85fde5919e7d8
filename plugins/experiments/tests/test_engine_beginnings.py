"""A run that ends before anything of it is recorded leaves nothing, or what the next start takes for its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentix.api import AgentixError, RunError, RunLocked
from agentix.cli.api import ExperimentWriter
from agentix.plugins.experiments.engine import live as live_module

MATRIX = "matrix: {agents: [someone]}\n"
FETCHING = """
    kind: Commands
    source_git: {{script: '{script}'}}
    ---
    cases: [{{path: cases/a}}, {{source: git, repo: "https://example.org/cases", path: cases/b}}]
    matrix: {{agents: [someone]}}
"""


def left(lab) -> list[str]:
    return sorted(str(path.relative_to(lab.root)) for path in lab.root.glob("runs/**/*"))


@pytest.mark.parametrize(
    "body",
    [
        MATRIX + "surplus: 1\n",
        MATRIX + 'cases: [{path: "nowhere/*"}]\n',
        MATRIX + "pipeline: {per_experiment: [{uses: absent}]}\n",
        "cases: [{path: cases/a}, {path: cases/gone}]\n" + MATRIX,
        FETCHING.format(script="exit 3"),
    ],
)
def test_what_is_wrong_with_the_file_or_its_cases_leaves_nothing(lab, body: str) -> None:
    file = lab.file(body)
    for _ in range(2):
        with pytest.raises(AgentixError):
            lab.run(file)
        assert left(lab) == []


def test_a_key_of_the_environment_that_is_wrong_leaves_nothing(lab) -> None:
    file = lab.file(MATRIX)
    done = lab.cli("run", str(file), "--id", "r", env={**os.environ, "AGENTIX_N_CONCURRENT": "many"})
    assert (done.returncode, left(lab)) == (2, [])


def test_an_error_in_any_plugin_before_the_beginning_leaves_nothing(lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object, **__: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr("agentix.plugins.experiments.engine.flow.make_manifest", wrong)
    with pytest.raises(RuntimeError, match="no"):
        lab.run(lab.file(MATRIX))
    assert left(lab) == []
    monkeypatch.undo()
    monkeypatch.setattr(live_module, "open_publication", wrong)
    with pytest.raises(RuntimeError, match="no"):
        lab.run(lab.file(MATRIX))
    assert left(lab) == []


def test_a_disk_that_does_not_take_the_manifest_leaves_nothing(lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("agentix.records.experiment_writer.write_file", full)
    with pytest.raises(RunError, match="cannot be written: No space left on device"):
        lab.run(lab.file(MATRIX))
    assert left(lab) == []


def test_what_somebody_else_has_in_the_directory_stays(lab) -> None:
    mine = lab.path() / "cases" / "mine"
    mine.mkdir(parents=True)
    (lab.path() / "notes.txt").write_text("mine")
    with pytest.raises(AgentixError):
        lab.run(lab.file(FETCHING.format(script="exit 3")))
    assert left(lab) == ["runs/r", "runs/r/.lock", "runs/r/cases", "runs/r/cases/mine", "runs/r/notes.txt"]
    assert lab.run(lab.file(MATRIX)) == 0
    assert mine.is_dir()


def test_a_directory_that_was_made_for_a_run_stays_where_nothing_came_of_it(lab) -> None:
    lab.path().mkdir(parents=True)
    with pytest.raises(AgentixError):
        lab.run(lab.file(FETCHING.format(script="exit 3")))
    assert left(lab) == ["runs/r"]


def start(lab, file: Path) -> subprocess.Popen[str]:
    """A run that is at fetching its cases."""
    os.mkfifo(lab.root / "up")
    program = "import sys; from agentix.cli.app import main; sys.exit(main('agentix', sys.argv[1:]))"
    command = [sys.executable, "-c", program, "run", str(file), "--id", "r", "--executor", lab.executor, "-v"]
    run = subprocess.Popen(command, cwd=lab.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert "up" in (lab.root / "up").read_text()
    (lab.root / "up").unlink()
    return run


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_cases_are_fetched_leaves_nothing(lab, number: int, code: int) -> None:
    run = start(lab, lab.file(FETCHING.format(script=f"echo up > {lab.root}/up; exec sleep 300")))
    run.send_signal(number)
    said, _ = run.communicate(timeout=60)
    assert run.returncode == code, said
    assert "results:" not in said
    assert left(lab) == []


def test_what_a_killed_start_leaves_is_taken_over_without_a_word(lab, capfd) -> None:
    wait = f'cp -r cases "$LOCAL_PATH/"; echo up > {lab.root}/up; exec sleep 300'
    run = start(lab, lab.file(FETCHING.format(script=wait)))
    run.kill()
    run.communicate(timeout=60)
    assert "runs/r/.lock" in left(lab)
    assert lab.run(lab.file(MATRIX), quiet=False) == 0
    assert "taken over" not in capfd.readouterr().out
    assert len(lab.records()) == 2


def test_a_lock_that_its_owner_removes_is_not_held_by_whoever_waited_for_it(tmp_path: Path) -> None:
    inside, begun, errors = [0], [0], list[BaseException]()

    def work() -> None:
        for _ in range(40):
            try:
                with ExperimentWriter(tmp_path / "r"):
                    inside[0] += 1
                    begun[0] += 1
                    assert inside[0] == 1
                    inside[0] -= 1
            except RunLocked:
                continue
            except BaseException as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert begun[0] > 0
    with ExperimentWriter(tmp_path / "r"):
        pass
    # Who comes between the lock and its directory leaves that, and nothing in it.
    assert list(tmp_path.glob("r/*")) == []
