"""What must not leave this machine, and tries to: of other trials, of other times, and in other words."""

from __future__ import annotations

import os
import subprocess
import sys

from published import holding, names, write


def test_a_step_that_ships_each_trial_cannot_reach_others_that_may_still_be_dropped(lab) -> None:
    os.mkfifo(lab.root / "staged")
    os.mkfifo(lab.root / "shipped")
    file = write(
        lab,
        """
  concurrency: 2
  per_trial:
  - {uses: auto}
  - {uses: redact}
  - {uses: archive}
  - {uses: hold, on_violation: drop}
  - {uses: ship, name: all, with: {using: take, dest: 'all-{{.TrialID}}', path: trials}, on_failure: warn}
  - {uses: ship, name: own, with: {using: take, dest: '{{.TrialID}}', path: 'trials/{{.TrialID}}/out'}}
  - {uses: ship, name: tar, with: {using: take, dest: 'tar', path: 'archives/{{.TrialID}}.tar'}}
  - {uses: ship, name: end, with: {using: end}}
""",
        commands="""
hold: {script: 'case $TRIAL_ID in a-*) cat @/staged;; *) echo > @/staged; cat @/shipped; exit 1;; esac'}
end: {script: 'echo > @/shipped'}
""",
    )
    assert lab.run(file) == 0
    assert lab.records()["b-someone-1"].dropped
    assert sorted(p.name for p in (lab.root / "sent").iterdir()) == ["a-someone-1", "tar"]
    assert names(lab.root / "sent/a-someone-1/path") == ["answer.txt"]
    assert "is not of this trial alone" in (lab.path() / "run.log").read_text()
