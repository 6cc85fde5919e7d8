from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentix.api import FailureCode, Record
from agentix.cli.api import exit_codes
from agentix.cli.app import main


def write(root: Path, name: str, rewards: dict[str, float | None], agent: str = "a") -> None:
    records = [
        Record(
            trial_id=case,
            case=case,
            agent=agent,
            reward=reward,
            failure_code=None if reward is not None else FailureCode.HOST_ERROR,
        )
        for case, reward in rewards.items()
    ]
    (root / name).mkdir(parents=True)
    (root / name / "results.jsonl").write_bytes(b"".join(record.to_line() for record in records))


@pytest.fixture
def runs(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "runs", "before", {"c1": 0.0, "c2": 0.5, "c3": 1.0, "c4": 0.25, "c5": 1.0})
    write(tmp_path / "runs", "after", {"c1": 1.0, "c2": 0.5, "c3": 0.5, "c4": 1.0, "c6": 1.0, "c5": None}, agent="b")
    return tmp_path / "runs"


def test_two_runs_by_their_ids(runs, capsys):
    assert main("agentix", ["compare", "before", "after"]) == exit_codes.OK
    out = capsys.readouterr().out
    assert "A  before: a\nB  after: b\n" in out
    assert "mean reward over 4 cases: A 0.438, B 0.75" in out
    assert "B wins 2, loses 1, ties 1" in out and "sign test p = 1.0000" in out
    assert "difference B - A: +0.312  [-0.783, +1.408] (95 %, over cases)" in out
    rows = [line.split() for line in out.splitlines() if line.startswith("c") and len(line.split()) == 4]
    assert [row[0] for row in rows] == ["c3", "c4", "c1"] and rows[0][1:] == ["1.0", "0.5", "-0.500"]
    assert "measured only in A: c5" in out and "measured only in B: c6" in out
    assert "left out, failed for a reason that is not the agent's: 0 in A, 1 in B" in out
    assert "setup: the same" in out


def test_json_has_all_of_it(runs, capsys):
    assert main("agentix", ["compare", str(runs / "before"), "after", "--json"]) == exit_codes.OK
    data = json.loads(capsys.readouterr().out)
    (pair,) = data["pairs"]
    assert (pair["wins"], pair["losses"], pair["ties"], len(pair["cases"])) == (2, 1, 1, 4)
    assert pair["permutation"] == "exact" and pair["interval"]["method"] == "t"
    assert data["infra_failures"] == {"a": 0, "b": 1}


def test_only_what_the_compared_rows_left_out_is_counted(runs, capsys):
    for name, failed in (("x", 3), ("y", 2)):
        write(runs, name, {"c1": 1.0, "c2": None})
        others = runs / f"{name}-others"
        write(runs, others.name, dict.fromkeys([f"c{number}" for number in range(failed)]) | {"c9": 0.5}, agent="other")
        with (runs / name / "results.jsonl").open("ab") as file:
            file.write((others / "results.jsonl").read_bytes().replace(b'"trial_id":"', b'"trial_id":"other-'))
    assert main("agentix", ["compare", "x", "y", "--row-a", "a", "--row-b", "a"]) == exit_codes.OK
    assert "left out, failed for a reason that is not the agent's: 1 in A, 1 in B" in capsys.readouterr().out
    assert main("agentix", ["compare", "x", "y", "--json"]) == exit_codes.OK
    assert json.loads(capsys.readouterr().out)["infra_failures"] == {"a": 4, "b": 3}


def test_a_run_without_a_measurement_says_so(runs, capsys):
    write(runs, "nothing", {"c1": None, "c2": None})
    assert main("agentix", ["compare", "nothing", "after"]) == exit_codes.USAGE
    said = capsys.readouterr().err
    assert "there is nothing to compare: runs/nothing has no trial that was measured" in said
    assert "a has" not in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["before", "nowhere"], "there is no run 'nowhere'"),
        (["before", "after", "--row-b", "z"], "no measured row 'z'"),
    ],
)
def test_what_cannot_be_compared_is_a_usage_error(runs, capsys, arguments, said):
    assert main("agentix", ["compare", *arguments]) == exit_codes.USAGE
    assert said in capsys.readouterr().err
