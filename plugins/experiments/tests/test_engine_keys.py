"""The key of a model is in nothing that its run writes, wherever an adapter or an agent puts it."""

from __future__ import annotations

import pytest

LEAKY = """
---
kind: Commands
leaky:
  script: |
    echo $LLM_API_KEY; echo $LLM_API_KEY > $OUT_DIR/seen.txt; echo $LLM_API_KEY > $WORK_DIR/seen.txt
    {script}
agent_leaky: {{script: "echo $LLM_API_KEY; echo $LLM_API_KEY >&2; echo $LLM_API_KEY > left.txt; exit 3"}}
after: {{script: "env; env > $WORK_DIR/env.txt; echo $THE_KEY >&2; exit 1"}}
---
kind: LLMSpec
name: m
model: x
api_key_env: THE_KEY
---
cases: [{{path: cases/a}}]
matrix: {{agents: [leaky], llm_specs: [m]}}
pipeline: {{per_trial: [{{uses: {executor}}}, {{uses: after, on_failure: warn}}]}}
"""


@pytest.mark.parametrize(
    ("executor", "script"),
    [
        ("leaky", 'echo "AGENT_FAILED\n    it was $LLM_API_KEY" > $OUT_DIR/failure.txt'),
        ("leaky", "echo $LLM_API_KEY > $OUT_DIR/failure.txt"),
        ("leaky", "echo $LLM_API_KEY > $OUT_DIR/reward.txt"),
        ("leaky", 'echo "{\\"reward\\": 1, \\"$LLM_API_KEY\\": 1}" > $OUT_DIR/reward.json'),
        ("local", "true"),
    ],
    ids=["a message", "a code", "a reward", "a metric", "natively"],
)
def test_the_key_is_in_no_file_of_the_run(lab, monkeypatch: pytest.MonkeyPatch, capfd, executor, script) -> None:
    monkeypatch.setenv("THE_KEY", "sk-canary-0123456789")
    file = lab.file(LEAKY.format(script=script, executor=executor))
    lab.run(file, executor=None, quiet=False, verbose=True)
    assert lab.records()
    holding = [name for name, data in lab.bytes().items() if b"canary-0123456789" in data]
    assert holding == []
    out, err = capfd.readouterr()
    assert "canary" not in out + err
