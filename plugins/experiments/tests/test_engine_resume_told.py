"""What a resumed run says of itself: what is run again, what is another thing than before, and how much there is."""

from __future__ import annotations

import pytest

from agentix.api import RunChanged
from agentix.cli.api import exit_codes, parse_retry

FILE = """
    kind: Commands
    note: {script: 'echo one'}
    other: {script: 'echo two'}
    ---
    matrix: {agents: [someone]}
    pipeline: {per_trial: [{uses: auto}, {uses: note}]}
"""


def test_trials_that_run_again_are_not_among_the_kept_ones(lab, capfd) -> None:
    lab.script(a_someone_1=[{"code": "HOST_ERROR"}, {}])
    file = lab.file("matrix: {agents: [someone]}\n")
    assert lab.run(file) == exit_codes.UNMEASURED
    assert f"again with agentix run {file} --id r --" in (said := capfd.readouterr().out) and " --retry infra\n" in said
    assert lab.run(file, retry=parse_retry(["infra"]), quiet=False) == exit_codes.OK
    assert " 1 trial to run (1 of them again), 1 kept\n" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (FILE.replace("echo one", "echo three"), "note is another one than before (command script)"),
        (FILE.replace("{uses: note}", "{uses: note}, {uses: other}"), "other is new"),
        (FILE.replace(", {uses: note}", ""), "note is no longer in the file"),
    ],
)
def test_a_changed_step_after_trials_is_told_and_a_finished_run_stays(lab, capfd, text: str, told: str) -> None:
    assert lab.run(lab.file(FILE)) == exit_codes.OK
    before = lab.bytes()
    capfd.readouterr()
    assert lab.run(lab.file(FILE)) == exit_codes.OK
    assert "per_trial" not in capfd.readouterr().out
    assert lab.run(lab.file(text)) == exit_codes.OK
    assert f"note: per_trial: {told}; 2 trials kept as the steps before have left them\n" in capfd.readouterr().out
    assert lab.bytes() == before


def test_another_name_under_the_same_id_is_refused(lab) -> None:
    file = lab.file(FILE)
    assert lab.run(file) == exit_codes.OK
    file.write_text(file.read_text().replace("name: lab", "name: other"))
    with pytest.raises(RunChanged, match="name: lab -> other"):
        lab.run(file)
    assert lab.run(file, force=True) == exit_codes.OK


def counts(lab, done) -> tuple[str, str, int, str]:
    """What is said of how much there is: the last result, the summary, the manifest and the status."""
    results = [line.split()[1] for line in done.stdout.splitlines() if "] " in line and line.split()[1].startswith("[")]
    (summary,) = (line for line in done.stdout.splitlines() if " resolved, " in line)
    status = lab.cli("status", "r").stdout.splitlines()
    return results[-1] if results else "", summary.partition(":")[0], lab.manifest()["planned"], status[1]


def start(lab, text: str, *more: str):
    return lab.cli("run", str(lab.file(text)), "--id", "r", "--executor", lab.executor, *more)


def test_a_smaller_matrix_counts_what_is_kept_and_what_is_left(lab) -> None:
    plenty = [{"code": "HOST_ERROR"}]
    lab.script(a_someone_3=plenty, a_someone_4=plenty, a_someone_5=plenty)
    first = start(lab, "matrix: {agents: [someone], trials: 5}\n", "--stop-after", "2")
    assert first.returncode == exit_codes.FAILED
    assert counts(lab, first) == ("[4/10]", "10 trials", 10, "4/10 trials done")
    again = start(lab, "matrix: {agents: [someone], trials: 3}\n")
    assert "matrix: 6 trials across 2 cases" in again.stdout
    assert "note: 1 trial with a result that is no longer in the file is kept and counts\n" in again.stdout
    assert "note: 3 planned trials without a result are no longer in the file and do not count\n" in again.stdout
    assert counts(lab, again) == ("[7/7]", "7 trials", 7, "7/7 trials done")
    assert "0 unrun" in again.stdout and "coverage 5/7" in again.stdout
    rows = [line.split() for line in lab.cli("status", "r").stdout.splitlines() if line.startswith("cases/")]
    assert rows == [["cases/a", "4", "4", "0", "2"], ["cases/b", "3", "3", "0", "0"]]
    larger = start(lab, "matrix: {agents: [someone], trials: 5}\n", "--retry", "infra")
    assert counts(lab, larger)[1:] == ("10 trials", 10, "10/10 trials done")


def test_a_case_that_is_no_longer_in_the_file_is_kept_and_counted_once(lab) -> None:
    assert start(lab, "matrix: {agents: [someone], trials: 2}\n").returncode == exit_codes.OK
    text = "cases: [{path: cases/a}]\nmatrix: {agents: [someone], trials: 3}\n"
    again = start(lab, text)
    assert "note: 2 trials with a result that are no longer in the file are kept and count\n" in again.stdout
    assert counts(lab, again) == ("[5/5]", "5 trials", 5, "5/5 trials done")
    assert sorted(case["name"] for case in lab.manifest()["cases"]) == ["a", "b"]


def test_a_part_of_the_cases_that_is_asked_for_makes_a_run_no_smaller(lab) -> None:
    assert start(lab, "matrix: {agents: [someone]}\n").returncode == exit_codes.OK
    part = start(lab, "matrix: {agents: [someone], trials: 2}\n", "--case", "a")
    assert "no longer" not in part.stdout
    assert counts(lab, part)[1:] == ("4 trials", 4, "3/4 trials done")
    rest = start(lab, "matrix: {agents: [someone], trials: 2}\n")
    assert counts(lab, rest) == ("[4/4]", "4 trials", 4, "4/4 trials done")


def test_what_is_another_thing_in_an_executor_is_named(lab) -> None:
    (lab.root / "helper.sh").write_text("echo 1 > $OUT_DIR/reward.txt\n")
    adapter = lab.root / "adapter.sh"
    adapter.write_text("#!/bin/sh\necho 1 > $OUT_DIR/reward.txt\n")
    adapter.chmod(0o755)
    scripted = "kind: Commands\nharbor: {script: 'sh ./helper.sh'}\n---\nmatrix: {agents: [someone]}\n"
    pinned = scripted.replace("script: 'sh ./helper.sh'", "uses: adapter.sh")
    assert lab.run(lab.file(scripted), "one", executor=None) == exit_codes.OK
    assert lab.run(lab.file(pinned), "two", executor=None) == exit_codes.OK
    (lab.root / "helper.sh").write_text("echo 0 > $OUT_DIR/reward.txt\n")
    adapter.write_text("#!/bin/sh\necho 0 > $OUT_DIR/reward.txt\n")
    with pytest.raises(RunChanged, match=r"executor fingerprint \(command file helper.sh\): \w+ -> \w+"):
        lab.run(lab.file(scripted), "one", executor=None)
    with pytest.raises(RunChanged, match=r"executor fingerprint \(command file .*adapter.sh\): \w+ -> \w+"):
        lab.run(lab.file(pinned), "two", executor=None)
    with pytest.raises(RunChanged, match=r"executor fingerprint \(.*command script\): \w+ -> \w+"):
        lab.run(lab.file(scripted.replace("sh ./", "bash ./")), "one", executor=None)
