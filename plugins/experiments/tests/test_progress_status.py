"""What a run says of numbers that stand on few of its trials: at its end, in its report and in its status."""

from __future__ import annotations

import json

import pytest

from agentix.cli.api import ExperimentWriter, exit_codes

CODES = ["AGENT_TIMEOUT", "AGENT_FAILED", "ENV_FAILED", "VERIFIER_ERROR"]


@pytest.mark.parametrize(
    ("codes", "rewards", "both", "low"),
    [
        (CODES, [1, 1, 1, 1, 0, 0], "0.500 (0.400)", "only 8 of 10 trials"),
        (["ENV_FAILED"] * 9, [1], "1.000 (0.100)", "only 1 of 10 trials"),
        (CODES[:2], [1, 1, 0, 0, 0, 0, 0, 0], "0.200", None),
    ],
)
def test_both_bounds_and_a_low_coverage_are_told_wherever_a_mean_is(
    lab, capfd, codes: list[str], rewards: list[float], both: str, low: str | None
) -> None:
    ends = [{"code": code} for code in codes] + [{"reward": float(reward)} for reward in rewards]
    lab.script(**{f"{case}_someone_{n + 1}": [ends[5 * "ab".index(case) + n]] for case in "ab" for n in range(5)})
    lab.run(lab.file("matrix: {agents: [someone], trials: 5}\n"), stop_after=None)
    report = (lab.path() / "report.md").read_text()
    status = lab.cli("status", "r").stdout
    for said in (capfd.readouterr().out, report, status):
        assert ("LOW COVERAGE" in said) is (low is not None)
        assert low is None or low in said
    assert f"| {both} |" in report
    (row,) = (line for line in status.splitlines() if line.startswith("someone"))
    assert row.split("  ")[:1] == ["someone"] and f"  {both}  " in row


def test_a_run_in_which_no_trial_is_done_has_no_rows_and_no_coverage(lab) -> None:
    file = lab.file("""
    kind: Commands
    check: {script: 'false'}
    ---
    matrix: {agents: [one, two]}
    pipeline: {per_case: [{uses: check}]}
    """)
    assert lab.run(file) == exit_codes.FAILED
    status = lab.cli("status", "r").stdout
    assert "0/4 trials done" in status
    assert "LOW COVERAGE" not in status and "not measured" not in status


def test_the_words_of_a_summary_are_defined_where_a_run_is_started(lab) -> None:
    text = " ".join(lab.cli("run", "--help").stdout.split())
    for word in ("unrun: no result", "denominator: measured + agent failures", "coverage: measured / planned"):
        assert word in text


@pytest.mark.parametrize(("limit", "asked"), [("", {"max_cost_usd": 9.0}), ("limits: {max_cost_usd: 9}\n", {})])
def test_a_limit_that_cannot_see_what_trials_cost_says_so_once(lab, capfd, limit: str, asked: dict[str, float]) -> None:
    lab.script(every=[{"tokens": 5}])
    assert lab.run(lab.file(f"matrix: {{agents: [someone], trials: 2}}\n{limit}"), quiet=False, **asked) == 0
    assert capfd.readouterr().out.count("what it cost is unknown; trials like it do not count against") == 1


def test_the_status_of_a_run_that_goes_on_names_the_step_that_it_is_at(lab) -> None:
    assert lab.run(lab.file("matrix: {agents: [someone]}\n")) == 0
    with ExperimentWriter(lab.path()):
        path = lab.path() / "progress.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"state": "closing", "doing": "ship"}))
        assert lab.cli("status", "r").stdout.startswith("r (closing: ship)\n")
    # Whoever was at it has gone.
    assert lab.cli("status", "r").stdout.startswith("r (dead)\n")
