"""What a dry run says of the steps, and that the manifest has the redaction that a file forgot."""

from __future__ import annotations

import pytest

from agentix.cli.api import exit_codes

PUBLISHES = """
    ---
    kind: Commands
    send: {run: ["true"]}
    ---
    matrix: {agents: [oracle]}
    pipeline:
      per_trial:
        - uses: auto
        - {uses: guard, with: {min_reward: 0}, on_violation: drop}
        - uses: archive
      per_experiment:
        - uses: dataset
        - {uses: ship, with: {using: my-store, path: dataset, dest: shelf}}
        - {uses: ship, with: {using: send, dest: "https://me:hunter2@host/{{.RunID}}"}}
"""


def test_a_dry_run_shows_the_steps_what_they_ship_where_and_the_redaction_that_is_added(lab, depot, capsys):
    assert lab.run(lab.file(PUBLISHES), dry_run=True) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "after each trial: guard, redact, archive" in lines
    ship = f"ship (dataset with my-store ({depot}), to shelf)"
    assert f"at the end: dataset, {ship}, ship (with the command send, to https://host/{{{{.RunID}}}})" in lines
    assert any(line.startswith("note: pipeline.per_trial: ") and "redact runs" in line for line in lines)
    assert not lab.path().exists()


@pytest.mark.parametrize(
    ("limit", "option", "price", "said"),
    [
        ("", 1.0, "", "so --max-cost-usd can count only"),
        ("limits: {max_cost_usd: 1}", None, "", "so limits.max_cost_usd can count only"),
        ("limits: {max_cost_usd: 1}", 1.0, "price: {in: 3}", "so --max-cost-usd and limits.max_cost_usd can count"),
        ("", 1.0, "price: {in: 3, out: 0}", None),
        ("", None, "", None),
    ],
)
def test_a_limit_to_costs_that_nobody_may_know_is_told_before_anything_is_spent(
    lab, capsys, limit: str, option: float | None, price: str, said: str | None
) -> None:
    file = lab.file(f"""
        kind: LLMSpec
        name: m
        model: x
        {price}
        ---
        matrix: {{agents: [claude], llm_specs: [m]}}
        {limit}
    """)
    assert lab.run(file, dry_run=True, max_cost_usd=option) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if "no whole price" in line]
    assert len(notes) == (0 if said is None else 1)
    assert all(said is not None and said in line for line in notes)


def test_the_manifest_has_the_redaction_that_is_added(lab):
    file = lab.file("""
        matrix: {agents: [oracle]}
        pipeline:
          per_trial: [{uses: auto}, {uses: archive}]
    """)
    assert lab.run(file) == 0
    assert [(step["scope"], step["uses"]) for step in lab.manifest()["steps"]] == [
        ("per_trial", "redact"),
        ("per_trial", "archive"),
    ]


GATED = """
    kind: Commands
    look: {script: 'test "$CASE_NAME" != a || { echo too easy; exit 1; }'}
    mend: {script: 'touch "$CASE_DIR/mended"'}
    ---
    matrix: {agents: [someone]}
    pipeline: {per_case: [{uses: look MORE}]}
"""


@pytest.mark.parametrize(
    ("more", "code", "then", "a", "b"),
    [
        (
            "",
            exit_codes.FAILED,
            "the run stops before any trial",
            "not run: its case is known to be rejected by look",
            "not run: case cases/a is known to be rejected, which stops the run",
        ),
        (
            ", on_failure: skip",
            exit_codes.OK,
            "left out",
            "not run: its case is known to be rejected by look",
            "",
        ),
        (", fix: mend", exit_codes.FAILED, "repaired with mend and checked again", "", ""),
    ],
)
def test_a_dry_run_knows_what_the_gate_knows(lab, capsys, more: str, code: int, then: str, a: str, b: str) -> None:
    file = lab.file(GATED.replace("MORE", more))
    assert lab.run(file, dry_run=True) == exit_codes.OK
    said = capsys.readouterr().out
    assert "gate: 2 cases checked first (look), 0 known; what it rejects does not run\n" in said
    assert "2 trials to run (dry run" in said
    assert lab.run(file) == code
    before = len(lab.ran)
    capsys.readouterr()
    assert lab.run(file, "other", dry_run=True) == exit_codes.OK
    said = capsys.readouterr().out
    assert "case cases/a: look: " in said and f"too easy (known): {then}\n" in said
    trials = [line.strip() for line in said.splitlines() if line.startswith("  ")]
    assert trials == [f"{name}{f': {why}' if why else ''}" for name, why in (("a-someone-1", a), ("b-someone-1", b))]
    assert f"{sum(not why for why in (a, b))} trial" in said and len(lab.ran) == before
    assert lab.run(file, "other", dry_run=True, regate=True) == exit_codes.OK
    assert "2 trials to run" in capsys.readouterr().out


def test_a_dry_run_of_a_run_whose_cases_were_repaired_knows_what_they_were_repaired_to(lab, capsys):
    text = GATED.replace("MORE", ", fix: mend").replace('"$CASE_NAME" != a', '-e "$CASE_DIR/mended"')
    assert lab.run(lab.file(text)) == exit_codes.OK
    before = {path: path.stat().st_mtime_ns for path in lab.path().rglob("*")}
    capsys.readouterr()
    assert lab.run(lab.file(text), dry_run=True) == exit_codes.OK
    said = capsys.readouterr().out
    assert "changed" not in said and "too easy" not in said
    assert "gate: 0 cases checked first (look), 2 known; what it rejects does not run\n" in said
    assert "0 trials to run (dry run: nothing was run)\n" in said
    assert {path: path.stat().st_mtime_ns for path in lab.path().rglob("*")} == before
