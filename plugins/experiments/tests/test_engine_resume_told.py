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
    assert lab.run(file, retry=parse_retry(["infra"]), quiet=False) == exit_codes.OK
    assert " 1 trial to run (1 of them again), 1 kept\n" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (FILE.replace("echo one", "echo three"), "note is another one than before"),
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
