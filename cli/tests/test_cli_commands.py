from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from agentix.cli import app as app_module
from agentix.cli.app import COMMANDS
from agentix.cli.terms import TERMS
from agentix.cli.wording import reason
from agentix.models import FailureCode
from agentix.records import Record


def test_help_lists_every_command_without_importing_what_it_takes_to_run_one():
    code = (
        "import sys, agentix_console as c; sys.argv = ['agentix', '--help']; c.agentix();"
        "heavy = {'pydantic', 'rich', 'anyio', 'agentix.runner', 'agentix.cli.rollout'};"
        "heavy = (heavy | {'agentix.records', 'agentix.stats'}) & sys.modules.keys();"
        "print('heavy:', sorted(heavy - {'pydantic', 'anyio'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(f"  {name} " in done.stdout for name in COMMANDS)
    assert "heavy: []" in done.stdout


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "plugins"])
def test_every_command_has_help(toy, name):
    called = toy.agentix(name, "--help")
    assert called.code == 0
    assert called.out.startswith(f"Usage: agentix {name}")


def test_every_term_of_a_summary_is_defined():
    assert {"planned", "measured", "denominator", "coverage", "unrun"} <= TERMS.keys()


def test_help_defines_the_words_and_the_exit_codes(toy):
    called = toy.rollout("--help")
    text = " ".join(called.out.split())
    for word in ("denominator: measured + agent failures", "coverage: measured / planned", "143 SIGTERM"):
        assert word in text


def test_version(toy):
    for called in (toy.agentix("--version"), toy.rollout("--version", plugins=[])):
        assert called.code == 0
        assert called.out.startswith("agentix 0.")


def test_an_unknown_command_is_a_usage_error(toy):
    called = toy.agentix("shwo")
    assert called.code == 2
    assert "shwo" in called.err
    assert "Did you mean 'show'?" in called.err
    assert "Did you mean" not in toy.agentix("zzzzzz").err


def test_a_command_of_a_plugin_is_listed_with_what_it_says_of_itself_and_runs(toy, monkeypatch):
    import typer

    added = typer.Typer()

    @added.command()
    def wave(name: str = "you"):
        """Wave at somebody. Or do not."""
        print(f"hello {name}")

    def loaded(name):
        if name == "broken":
            raise SyntaxError("in a plugin")
        return app_module.as_command(added)

    found = {"wave": "some-dist 1.0", "show": "rude-dist 6.6", "broken": "odd-dist 0.1"}
    monkeypatch.setattr(app_module, "plugin_commands", lambda: found)
    monkeypatch.setattr(app_module, "plugin_command", loaded)
    listed = toy.agentix("--help").out
    assert "wave     Wave at somebody." in listed
    assert "broken   From odd-dist 0.1, and cannot be loaded: SyntaxError." in listed
    assert "rude-dist" not in listed
    assert toy.agentix("wave", "--name", "me").out == "hello me\n"


def test_show_a_run(toy):
    toy.rollout("--id", "r", "--dataset-opt", "broken=task-2", "--agent-opt", 'by={"task-1": "0"}')
    for what in ("r", "runs/r", "runs/r/results.jsonl"):
        called = toy.agentix("show", what)
        assert called.code == 0
        assert "4 trials: 2 resolved, 1 unresolved, 0 agent failures, 1 infrastructure failure, 0 unrun" in called.out
        assert "mean reward 0.667 over 3 (0.5 with 1 infrastructure as 0)" in called.out
    again = toy.rollout("--id", "r", "--dataset-opt", "broken=task-2", "--agent-opt", 'by={"task-1": "0"}')
    assert "run what was not measured again with --id r --retry infra\n" in again.out
    failures = toy.agentix("show", "r", "--failures").out
    assert "task-2-Agent-1: ENV_FAILED: the setup is broken  runs/r/trials/task-2-Agent-1/attempts/1" in failures
    assert "task-3" not in failures


def test_a_note_that_every_trial_has_is_shown_once_and_below_the_table(tmp_path, capsys):
    lines = [
        Record(
            trial_id=name,
            case=name,
            agent="x",
            index=1,
            reward=1.0,
            ended="completed",
            seconds=1.0,
            notes=("no isolation here", *own),
        ).to_line()
        for name, own in (("a", ()), ("b", ("b is odd",)))
    ]
    (tmp_path / "results.jsonl").write_bytes(b"".join(lines))
    assert app_module.main("agentix", ["show", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.count("no isolation here") == 1 and "\nnote: no isolation here\n" in out
    assert "  b is odd\n" in out


def test_what_is_logged_before_there_is_a_log_is_not_printed_besides():
    code = "from agentix.cli.api import log; log.warning('shown already')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""


def test_show_as_json_holds_the_records(toy):
    toy.rollout("--id", "r", "--dataset-opt", "broken=task-2")
    shown = toy.agentix("show", "r", "--json").json
    assert shown["records"] == toy.lines("r")
    assert shown["summary"]["infra_failures"] == 1
    assert [r["case"] for r in toy.agentix("show", "r", "--json", "--failures").json["records"]] == ["task-2"]


def test_show_a_trial(toy):
    toy.rollout("--id", "r", "--agent-opt", "fail=task-1")
    for what in ("r/task-1-Agent-1", "runs/r/task-1-Agent-1", "runs/r/trials/task-1-Agent-1"):
        called = toy.agentix("show", what)
        assert called.code == 0
        assert "AGENT_FAILED" in called.out
        assert "trial.json" in called.out
        assert "Traceback" not in called.out
    assert "OSError: the agent fell over" in toy.agentix("show", "r/task-1-Agent-1", "-v").out
    assert toy.agentix("show", "r/task-1-Agent-1", "--json").json["record"]["case"] == "task-1"


@pytest.mark.parametrize(("what", "near"), [("q", "r"), ("r/task-9-Agent-1", "task-3-Agent-1")])
def test_show_what_is_not_there_names_what_is(toy, what, near):
    toy.rollout("--id", "r")
    called = toy.agentix("show", what)
    assert called.code == 2
    assert near in called.err
    assert "…" not in called.err


def test_a_reason_is_one_line_that_keeps_the_hint_and_says_why_the_agent_ended():
    record = Record(
        trial_id="t",
        case="c",
        failure_code=FailureCode.HOST_ERROR,
        failure_message="no engine answers\n  start one\nlog:\nx",
    )
    assert reason(record) == "HOST_ERROR: no engine answers; start one; log: x"
    ended = Record(trial_id="t", case="c", reward=0.0, ended="agent_error", notes=("x", "agent: it fell over"))
    assert reason(ended) == "reward 0.0, ended by agent_error: it fell over"
    assert reason(record, longest=20) == "HOST_ERROR: no engi…"


def test_a_group_of_commands_offers_no_completion_of_its_own(toy):
    assert "completion" not in toy.agentix("plugins", "--help").out


def test_score_again_makes_a_new_set_beside_the_old(toy):
    toy.rollout("--id", "r", "--agent-opt", 'by={"task-1": "unscorable"}', "--agent-opt", "cost=0.5")
    before = (toy.path / "runs/r/results.jsonl").read_bytes()
    toy_file = toy.path / "toy.py"
    toy_file.write_text(
        toy_file.read_text()
        .replace("raise VerifierError", "return {'reward': 1.0}; raise VerifierError")
        .replace('"reward": float(patch)', '"reward": 0.25')
    )
    sessions = len(toy.ran())
    called = toy.agentix("score", "r", "--dataset-opt", "content=1")
    assert called.code == 0
    assert "4 results of 4 changed" in called.out
    assert len(toy.ran()) == sessions
    assert (toy.path / "runs/r/results.jsonl").read_bytes() == before
    rescored = [json.loads(line) for line in (toy.path / "runs/r/rescored/1/results.jsonl").read_text().splitlines()]
    assert {line["case"]: line["reward"] for line in rescored} == {
        "task-0": 0.25,
        "task-1": 1.0,
        "task-2": 0.25,
        "task-3": 0.25,
    }
    assert rescored[0]["usage"]["cost_usd"] == 0.5
    assert rescored[0]["notes"][-1].startswith("scored again with ")
    assert "versions" in json.loads((toy.path / "runs/r/rescored/1/manifest.json").read_text())
    toy.agentix("score", "r", "--instance", "task-0")
    assert len((toy.path / "runs/r/rescored/2/results.jsonl").read_text().splitlines()) == 1


def test_a_trial_without_an_answer_is_named_and_not_scored(toy):
    toy.rollout("--id", "r", "--dataset-opt", "broken=task-2")
    called = toy.agentix("score", "r")
    assert "not scored again: task-2-Agent-1: there is no answer" in called.out
    assert "3 trials: 3 resolved" in called.out


def test_an_answer_that_was_a_state_cannot_be_scored_again(toy):
    toy.rollout("--id", "r", "--dataset-opt", "state=true")
    called = toy.agentix("score", "r")
    assert called.code == 2
    assert "gone" in called.err


def test_what_a_dataset_with_its_own_flow_has_kept_is_scored_again_by_it(toy):
    (toy.path / "driven.py").write_text("""
from pathlib import Path

from agentix.api import VerifierError
from toy import Dataset as Plain


class Dataset(Plain):
    async def drive(self, flow, instance):
        if flow.earlier is None:
            sandbox = await flow.setup()
            await flow.solve(sandbox)
            (flow.log_dir / "answer").write_text(instance["instance_id"])
            if instance["instance_id"] != "task-1":
                flow.keep({"file": "answer"})
        else:
            assert (flow.earlier.directory / flow.earlier.data["file"]).read_text() == instance["instance_id"]

        async def scorer():
            if not Path("whole").exists():
                raise VerifierError("no reward")
            return {"reward": 0.5}

        return await flow.score(scorer)
""")
    plugins = ["--dataset", "./driven.py:Dataset", "--agent", "./toy.py:Agent", "--provider", "./toy.py:Provider"]
    toy.rollout("--id", "r", "--dataset-opt", "n=3", "--dataset-opt", "state=true", plugins=plugins)
    count = (toy.path / "count").read_text()
    (toy.path / "whole").touch()
    called = toy.agentix("score", "r")
    assert "not scored again: task-1-Agent-1: " in called.out
    assert "2 trials: 0 resolved, 2 unresolved" in called.out
    assert "2 results of 2 changed" in called.out
    assert (toy.path / "count").read_text() == count


def test_cache_prune_says_what_it_freed(toy, monkeypatch):
    monkeypatch.setenv("AGENTIX_CACHE_DIR", str(toy.path / "cache"))
    assert toy.agentix("cache", "path").out == f"{toy.path}/cache\n"
    called = toy.agentix("cache", "prune")
    assert called.code == 0
    assert "0 removed, 0.0 MiB freed" in called.out
    assert toy.agentix("cache", "prune", "--unused-for", "soon").code == 2


def test_doctor_has_one_line_a_thing_and_fails_for_a_problem(toy, monkeypatch):
    from agentix.cli import checkup

    class Sick:
        async def check(self):
            return ["it is sick"]

    monkeypatch.setattr(checkup, "plugins", lambda kind: [type("Info", (), {"name": "sick", "exact": "d/sick"})])
    monkeypatch.setattr(checkup, "load", lambda *args, **kwargs: Sick())
    monkeypatch.setenv("AGENTIX_CACHE_DIR", str(toy.path / "cache"))
    called = toy.agentix("doctor")
    assert called.code == 1
    assert "PROBLEM  provider sick: it is sick" in called.out
    assert "ok       python: 3." in called.out
    monkeypatch.setattr(Sick, "check", lambda self: [])
    monkeypatch.setattr(checkup.shutil, "which", lambda name: None)
    assert "PROBLEM  git: not found" in toy.agentix("doctor").out


def test_doctor_looks_at_the_providers_that_are_asked_for(toy, monkeypatch):
    monkeypatch.setenv("AGENTIX_CACHE_DIR", str(toy.path / "cache"))
    called = toy.agentix("doctor", "--provider", "./toy.py:Provider")
    assert called.code == 0
    assert "provider ./toy.py:Provider: toy; it has no check of its own" in called.out
    assert called.out.count("provider ") == 1
    called = toy.agentix("doctor", "--provider", "./toy.py:Provider", "--provider", "nowhere")
    assert called.code == 1
    assert "PROBLEM  provider nowhere: " in called.out


def test_cache_prune_frees_what_patches_were_made_against(toy, monkeypatch):
    from agentix.patch import BlobStore

    monkeypatch.setenv("AGENTIX_CACHE_DIR", str(toy.path / "cache"))
    blob = BlobStore.default().objects.path / "ab" / "cd"
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"x" * (2 << 20))
    os.utime(blob, (0, 0))
    dry = toy.agentix("cache", "prune", "--dry-run")
    assert "1 files kept for making patches\n1 removed, 2.0 MiB would be freed" in dry.out
    assert blob.exists()
    assert "1 removed, 2.0 MiB freed" in toy.agentix("cache", "prune").out
    assert not blob.exists()


def test_gc_deletes_orphans_and_nothing_else(toy):
    (toy.path / "leaky.py").write_text(
        "from agentix.models import SandboxInfo\n"
        "class Provider:\n"
        "    name, capabilities = 'leaky', frozenset()\n"
        "    async def create(self, config, runtime): ...\n"
        "    async def dial(self, sandbox_id): ...\n"
        "    async def list(self, labels): ...\n"
        "    def session(self, config): ...\n"
        "    async def orphans(self):\n"
        "        return [SandboxInfo(id=n, provider='leaky', labels={'run': 'r'}) for n in ('one', 'stuck')]\n"
        "    async def delete(self, sandbox_id):\n"
        "        if sandbox_id == 'stuck': raise OSError('busy')\n"
        "        with open('deleted', 'a') as file: file.write(sandbox_id)\n"
    )
    dry = toy.agentix("gc", "--provider", "./leaky.py:Provider", "--dry-run")
    assert "would delete one (run=r)" in dry.out
    assert not (toy.path / "deleted").exists()
    called = toy.agentix("gc", "--provider", "./leaky.py:Provider")
    assert called.code == 1
    assert "cannot delete stuck (run=r): busy" in called.out
    assert (toy.path / "deleted").read_text() == "one"
    own = toy.agentix("gc", "--provider", "./toy.py:Provider")
    assert (own.code, own.out) == (0, "toy: its sandboxes end with the process that made them\n")


def test_a_path_that_may_not_be_read_is_named_and_no_bug(toy, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("agentix.cli.run.RunState.read", refused)
    (toy.path / "runs/r").mkdir(parents=True)
    called = toy.rollout("--id", "r", "--dry-run")
    assert called.code == 2
    assert called.err == "error: runs/r: Permission denied\n"
