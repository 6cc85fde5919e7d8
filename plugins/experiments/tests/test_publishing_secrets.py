"""What is known to be secret is in no byte of what is published, and is told to nobody."""

from __future__ import annotations

import json
import re
import tarfile

import pytest
from published import MODEL, SHIP, holding, names, write

from agentix.api import Hooks, hookimpl, load_run
from agentix.plugins.experiments.engine import ShipRequest, ship_run

CANARY = "sk-canary-0123456789abcdef"

LEAKY = """
leaky:
  script: |
    cd "$OUT_DIR"
    echo "the key is $LLM_API_KEY" | tee agent.log
    printf '%s' "$LLM_API_KEY" | base64 > coded.txt
    printf 'a\\0b%s\\0c' "$LLM_API_KEY" > core.bin
    echo x > "file-$LLM_API_KEY.txt"
    ln -s /etc/passwd link
    mkfifo pipe
    agent='"agent": {"name": "x", "version": "1"}'
    printf '{"schema_version": "ATIF-v1.6", "session_id": "s", %s, "steps": [%s]}' "$agent" \\
      '{"step_id": 1, "source": "agent", "message": "'"$LLM_API_KEY"'"}' > trajectory.json
    printf 'AGENT_FAILED\\nit was %s' "$LLM_API_KEY" > failure.txt
"""


def test_a_key_is_in_no_byte_of_what_is_staged_or_shipped(lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", CANARY)
    file = write(
        lab,
        """
  per_trial: [{uses: leaky}, {uses: archive}, {uses: ship, with: {using: take, dest: 'trial/{{.TrialID}}'}}]
  per_experiment: [{uses: dataset}, {uses: report}, {uses: ship, with: {using: take, dest: all}}]
""",
        matrix="{agents: [leaky], llm_specs: [m]}",
        commands=LEAKY + "agent_leaky: {run: ['true']}\n",
        head=MODEL,
    )
    assert lab.run(file, executor=None) == 0
    sent = lab.root / "sent"
    assert len(names(sent / "all/run/trials/a-leaky-m-1")) > 3
    for place in (lab.path() / ".staging", sent):
        assert names(place)
        assert holding(place, b"canary") == []
        assert not [p for p in place.rglob("*") if p.is_symlink() or not (p.is_file() or p.is_dir())]
    assert holding(lab.path() / ".publishing", b"canary") == []
    assert (sent / "all/path").is_dir() and (sent / "trial/a-leaky-m-1/path").is_file()
    record = lab.records()["a-leaky-m-1"]
    assert record.redaction
    assert record.step_failures == ()
    (staged, _) = load_run(lab.path() / ".staging").records
    assert staged.redaction == record.redaction
    log = (lab.path() / ".staging/trials/a-leaky-m-1/out/agent.log").read_text()
    assert log == "the key is ***\n"


def test_secrets_of_this_machine_are_looked_for_and_short_ones_are_named_once(lab, monkeypatch, capfd) -> None:
    monkeypatch.setenv("MY_SESSION_COOKIE", "host-canary-value-1")
    monkeypatch.setenv("NAMED", "named-canary-value")
    monkeypatch.setenv("SHORT_TOKEN", "abc123")
    monkeypatch.setenv("UNRELATED", "stays-as-it-is")
    leaky = "leaky: {script: 'env > $OUT_DIR/env.txt; echo 1 > $OUT_DIR/reward.txt'}\n"
    pipeline = """
  per_trial: [{uses: leaky}, {uses: redact, with: {variables: [NAMED, MISSING]}}]
  per_experiment: [{uses: ship, with: {using: take, dest: x}}]
"""
    assert lab.run(write(lab, pipeline, commands=leaky), executor=None, quiet=False) == 0
    assert holding(lab.root / "sent", b"canary") == []
    text = (lab.root / "sent/x/run/trials/a-someone-1/out/env.txt").read_text()
    assert "UNRELATED=stays-as-it-is" in text and "MY_SESSION_COOKIE=***" in text
    said = capfd.readouterr().out
    assert len(re.findall("not looked for in what is published: .*SHORT_TOKEN", said)) == 1
    assert "the variable MISSING is not set" in said


def test_what_is_known_later_is_taken_out_of_what_was_redacted_before(lab, monkeypatch) -> None:
    secret = "later-canary-value"
    leaky = f"leaky: {{script: 'echo {secret[:5]}\"\"{secret[5:]} > $OUT_DIR/log.txt; echo 1 > $OUT_DIR/reward.txt'}}\n"
    text = (
        "  per_trial: [{uses: leaky}, {uses: archive}]\n"
        "  per_experiment: [{uses: dataset}, {uses: ship, with: {using: take, dest: x}}]\n"
    )
    assert lab.run(write(lab, text.replace("using: take", "using: gone"), commands=leaky), executor=None) == 1
    assert holding(lab.path() / ".staging/trials", secret.encode())
    monkeypatch.setenv("LATER_TOKEN", secret)
    assert lab.run(write(lab, text, commands=leaky), executor=None) == 0
    assert holding(lab.path() / ".staging", secret.encode()) == []
    assert holding(lab.root / "sent", secret.encode()) == []
    with tarfile.open(next((lab.path() / "archives").iterdir())) as archive:
        members = {m.name.rpartition("/")[2]: archive.extractfile(m).read() for m in archive if m.isfile()}
    assert members["log.txt"] == b"***\n"
    # Neither a value nor an unsalted hash of it is kept anywhere.
    ledger = (lab.path() / ".publishing/ledger.jsonl").read_text()
    assert secret not in ledger


def test_a_known_secret_in_what_is_shipped_is_refused_without_being_told(lab, monkeypatch, capfd) -> None:
    monkeypatch.setenv("A_TOKEN", CANARY)
    (lab.root / "odd.py").write_text(
        f"""
import zipfile
from pydantic import BaseModel
from agentix.api import Scope, StepOutcome

class Nothing(BaseModel):
    pass

class Odd:
    scopes = frozenset({{Scope.PER_EXPERIMENT}})
    Inputs = Nothing
    publishes = True
    async def run(self, ctx, inputs):
        with zipfile.ZipFile(ctx.work_dir / "made.zip", "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("inner.txt", "{CANARY}")
        return StepOutcome(publish={{"made.zip": ctx.work_dir / "made.zip"}})

step = Odd
"""
    )
    file = write(
        lab,
        f"  per_experiment:\n  - {{uses: '{lab.root}/odd.py:step'}}\n"
        "  - {uses: ship, with: {using: take, dest: x}, retries: 3}\n",
    )
    assert lab.run(file, quiet=False) == 1
    why = lab.manifest()["incomplete"]
    assert "made.zip is not shipped, it holds a known secret" in why and "inner.txt" in why
    assert "canary" not in why + capfd.readouterr().out
    assert not (lab.root / "sent").exists()


def test_a_dropped_record_is_told_to_steps_that_ask_and_is_redacted(lab, monkeypatch) -> None:
    monkeypatch.setenv("A_TOKEN", CANARY)
    (lab.root / "odd.py").write_text(
        """
import json
from pydantic import BaseModel
from agentix.api import Scope, StepOutcome

class Nothing(BaseModel):
    pass

class Odd:
    scopes = frozenset({Scope.PER_EXPERIMENT})
    Inputs = Nothing
    publishes = True
    async def run(self, ctx, inputs):
        (ctx.work_dir / "w.json").write_text(json.dumps([list(ctx.withheld()), list(ctx.withheld())]))
        assert "sessions" not in ctx.subject
        return StepOutcome(publish={"withheld.json": ctx.work_dir / "w.json"})

step = Odd
"""
    )
    refuse = f"tell: {{script: 'case $TRIAL_ID in a-*) echo {CANARY} >&2; exit 1;; esac'}}\n"
    file = write(
        lab,
        "  per_trial: [{uses: auto}, {uses: tell, on_violation: drop}]\n"
        f"  per_experiment: [{{uses: '{lab.root}/odd.py:step'}}]\n",
        commands=refuse,
    )
    # The file itself has the secret in it, which is staged too.
    assert lab.run(file) == 0
    first, second = json.loads((lab.path() / "withheld.json").read_text())
    assert first == second and [r["trial_id"] for r in first] == ["a-someone-1"]
    assert "***" in first[0]["notes"][0]
    assert holding(lab.path() / ".staging", CANARY.encode()) == []


def test_a_key_that_cannot_be_had_withholds_the_trials_that_had_it(lab, monkeypatch, capfd) -> None:
    monkeypatch.setenv("THE_KEY", CANARY)
    text = "  per_trial: [{uses: auto}]\n" + SHIP
    lab.script(a_x_m_1=[{"key": True}])
    model = {"matrix": "{agents: [x, {name: y, trials: 1}], llm_specs: [m]}", "head": MODEL}
    assert lab.run(write(lab, text.replace("using: take", "using: gone"), **model)) == 1
    monkeypatch.delenv("THE_KEY")
    assert lab.run(write(lab, text, **model), quiet=False) == 1
    assert "4 could not be redacted" in lab.manifest()["incomplete"]
    assert "THE_KEY is not set" in capfd.readouterr().out
    # What would go tells what to do, too.
    request = ShipRequest(run=lab.path(), file=write(lab, text, **model), dry_run=True)
    assert ship_run(request) == 1
    assert "THE_KEY is not set" in capfd.readouterr().out
    monkeypatch.setenv("THE_KEY", CANARY)
    assert lab.run(write(lab, text, **model)) == 0


def test_a_trial_that_never_had_its_key_can_be_published_without_it(lab) -> None:
    lab.script(every=[{"key": True}])
    text = "  per_experiment: [{uses: ship, with: {using: take, dest: x}}]\n"
    file = write(lab, text, matrix="{agents: [x], llm_specs: [m]}", head=MODEL)
    lab.script(every=[{"code": "ENV_FAILED"}])
    (lab.root / "executor.py").write_text(
        (lab.root / "executor.py")
        .read_text()
        .replace('message=todo.get("message", "no"))', 'message="no", detail="missing_key")')
    )
    assert lab.run(file) == 3
    assert len(load_run(lab.root / "sent/x/run").records) == 2


def test_a_file_that_could_not_be_cleaned_of_a_key_is_not_published_with_another_key_either(lab, monkeypatch) -> None:
    monkeypatch.setenv("THE_KEY", CANARY)
    leaky = r"""
leaky:
  script: |
    printf 'a\0b%s\0c' "$LLM_API_KEY" | tee "$OUT_DIR/core.bin" > "$OUT_DIR/$LLM_API_KEY.bin"
    echo 1 > "$OUT_DIR/reward.txt"
"""
    given = {"matrix": "{agents: [x], llm_specs: [m]}", "head": MODEL, "commands": leaky}
    plain = write(lab, "  per_trial: [{uses: leaky}]\n", **given)
    assert lab.run(plain, executor=None) == 0
    notes = lab.records()["a-x-m-1"].notes
    assert any("out/core.bin holds" in note for note in notes) and CANARY not in str(notes)
    monkeypatch.setenv("THE_KEY", "another-key-than-before")
    done = lab.cli("ship", "r", str(write(lab, "  per_trial: [{uses: leaky}]\n" + SHIP, **given)))
    assert done.returncode == 0, done.stdout + done.stderr
    sent = lab.root / "sent/x/run/trials/a-x-m-1"
    assert (sent / "out/reward.txt").exists() and not (sent / "out/core.bin").exists()


class Internal:
    """A plugin that knows what is nobody else's business."""

    @hookimpl
    def agentix_redaction_patterns(self) -> dict[str, str]:
        return {"internal_host": r"[a-z]{1,40}[.]corp[.]example"}


def test_what_plugins_want_taken_out_is_in_no_file_and_no_record(lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def installed() -> tuple[Hooks, list[str]]:
        hooks = Hooks()
        assert hooks.register(Internal(), name="acme") == []
        return hooks, []

    monkeypatch.setattr(Hooks, "installed", installed)
    tell = """
tell: {script: 'echo build.corp.example > $OUT_DIR/log.txt; echo 1 > $OUT_DIR/reward.txt'}
warn: {script: 'echo on build.corp.example >&2; exit 1'}
"""
    pipeline = "  per_trial: [{uses: tell}, {uses: warn, on_failure: warn}]\n" + SHIP
    assert lab.run(write(lab, pipeline, commands=tell), executor=None) == 0
    assert holding(lab.root / "sent", b"build.corp.example") == []
    assert lab.records()["a-someone-1"].redaction["internal_host"] == 1
