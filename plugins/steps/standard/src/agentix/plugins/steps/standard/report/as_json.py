"""A report in JSON."""

from __future__ import annotations

import json

from agentix.plugins.steps.standard.report.facts import Facts


def as_json(facts: Facts, *, lines: bool = False) -> str:
    """The report as one object.

    Args:
        facts: The run.
        lines: On one line, to stand below others.
    """
    data = {
        "schema_version": 1,
        "run_id": facts.run_id,
        "experiment": facts.experiment,
        "created_at": facts.created_at,
        "incomplete": facts.incomplete,
        **facts.numbers.to_data(pass_at=facts.pass_at),
        "unmeasured": {
            "total": facts.unmeasured.total,
            "listed": [{"trial_id": t, "code": c, "message": m} for t, c, m in facts.unmeasured.shown],
        },
        "step_failures": {
            "total": facts.step_failures.total,
            "listed": [{"trial_id": t or None, "step": s, "message": m} for t, s, m in facts.step_failures.shown],
        },
        "step_notes": {
            "total": facts.step_notes.total,
            "listed": [{"trial_id": t, "step": s, "note": n} for t, s, n in facts.step_notes.shown],
        },
        "gate": list(facts.gate),
        "rejected": dict(facts.rejected),
        "cases": [{"label": label, "sha256": sha or None, "from": pin} for label, sha, pin in facts.cases],
        "setup": dict(facts.setup),
        "warnings": list(facts.warnings),
    }
    return json.dumps(data, allow_nan=False, indent=None if lines else 2) + "\n"
