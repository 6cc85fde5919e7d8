"""What a dry run says of the steps, and that the manifest has the redaction that a file forgot."""

from __future__ import annotations

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
