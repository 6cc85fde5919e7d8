from __future__ import annotations

import json
import os
import subprocess

import pytest


def test_results_are_kept_and_summarized(toy):
    called = toy.rollout("--id", "r", "--agent-opt", 'by={"task-1": "0"}')
    assert called.code == 0
    assert "[4/4]" in called.out
    assert "4 trials: 3 resolved, 1 unresolved, 0 agent failures" in called.out
    assert "mean reward 0.75 over 4" in called.out
    assert "task-1-Agent-1: reward 0.0  runs/r/trials/task-1-Agent-1" in called.out
    assert {line["case"]: line["reward"] for line in toy.lines("r")}["task-1"] == 0.0
    run = toy.path / "runs/r"
    assert (run / "trials/task-0-Agent-1/patch.diff").read_bytes() == b"1"
    assert json.loads((run / "progress.json").read_text())["state"] == "finished"
    assert "task-0-Agent-1" in (run / "run.log").read_text()
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["dataset"]["ref"] == "./toy.py:Dataset"
    assert manifest["instances"][0] == {"id": "task-0", "sha256": "1" * 64}


def test_json_is_alone_on_stdout(toy):
    called = toy.rollout("--id", "r", "--json")
    assert called.json["exit_code"] == called.code == 0
    assert called.json["summary"]["resolved"] == 4
    assert "[4/4]" in called.err


def test_a_summary_that_does_not_arrive_is_an_error(toy):
    for arguments in (["--json"], ["--quiet"]):
        with open("/dev/full", "w") as full:
            called = toy.start("--id", "r", *arguments, stdout=full, stderr=subprocess.PIPE)
            said = called.communicate(timeout=60)[1]
        assert called.returncode == 1
        assert "error: not all of the output could be written: No space left on device" in said
    assert len(toy.lines("r")) == 4


def test_trials_are_listed_in_the_order_of_the_dataset(toy):
    with (toy.path / "toy.py").open("a") as file:
        file.write(
            "\n\nENDED = anyio.Event()\n"
            "class Late(Agent):\n"
            "    async def solve(self, sandbox, instance, *, model):\n"
            "        if instance['instance_id'] == 'task-3':\n"
            "            ENDED.set()\n"
            "        else:\n"
            "            await ENDED.wait()\n"
            "        return AgentResult(patch='1')\n"
        )
    called = toy.rollout("--id", "r", "--agent", "./toy.py:Late", "--trials", "2")
    rows = [line.split()[0] for line in called.out.split("\ntrial  ", 1)[1].splitlines()[1:9]]
    assert rows == [f"task-{number}-Late-{index}" for number in range(4) for index in (1, 2)]
    assert [line["trial_id"] for line in toy.lines("r")] != rows


def test_failures_of_one_reason_stand_together_and_are_said_in_full_once(toy):
    called = toy.rollout("--dataset-opt", "n=5", "--dataset-opt", "broken=all", "--stop-after", "0")
    assert called.out.count("the setup is broken") == 2
    assert called.out.count("ENV_FAILED: the same as task-") == 4
    assert "5 trials: ENV_FAILED" in called.out
    assert "\n  task-0-Agent-1  runs/" in called.out
    assert "\n  … and 2 more\n" in called.out


def test_a_provider_that_cannot_work_here_ends_the_run_before_any_trial(toy):
    with (toy.path / "toy.py").open("a") as file:
        file.write(
            "\n\nclass Broken(Provider):\n"
            "    async def check(self):\n"
            "        return ['there is no engine\\n  start one']\n"
            "\n\nclass Unsure(Provider):\n"
            "    async def check(self):\n"
            "        raise OSError('it cannot be asked')\n"
        )
    called = toy.rollout("--id", "r", "--provider", "./toy.py:Broken")
    assert called.code == 1
    assert "the provider ./toy.py:Broken cannot make sandboxes here: there is no engine; start one" in called.out
    assert toy.lines("r") == []
    assert toy.rollout("--id", "r", "--force").code == 0
    assert toy.rollout("--provider", "./toy.py:Unsure").code == 0


def test_notes_for_all_trials_are_told_once_and_others_counted(toy):
    with (toy.path / "toy.py").open("a") as file:
        file.write(
            "\n\nfrom dataclasses import replace\n"
            "class Noting(Provider):\n"
            "    async def create(self, config, runtime):\n"
            "        return replace(await super().create(config, runtime), notes=('toy: it is no sandbox',))\n"
            "\n\nclass Talks(Agent):\n"
            "    async def solve(self, sandbox, instance, *, model):\n"
            "        info = {'stdout_note': '9 bytes were not kept', 'x_note': 'y', 'n': 1}\n"
            "        return AgentResult(patch='1', info=info)\n"
        )
    called = toy.rollout("--agent", "./toy.py:Talks", "--provider", "./toy.py:Noting", "--quiet")
    assert called.code == 0
    assert called.out.count("toy: it is no sandbox") == 1
    assert "\nnote: toy: it is no sandbox\n" in called.out
    assert called.out.count("the agent's stdout: 9 bytes were not kept (+1 more)") == 4


def test_what_a_dataset_warns_of_is_a_notice(toy):
    with (toy.path / "toy.py").open("a") as file:
        file.write(
            "\n\nimport logging\n"
            "class Warns(Dataset):\n"
            "    def instances(self):\n"
            "        logging.getLogger('any').warning('left out: %s', 'task-9')\n"
            "        return super().instances()\n"
        )
    called = toy.rollout("--id", "r", "--dataset", "./toy.py:Warns")
    assert "note: left out: task-9\n" in called.out
    assert "left out: task-9" in (toy.path / "runs/r/run.log").read_text()


def test_quiet_prints_only_the_summary(toy):
    called = toy.rollout("--quiet")
    assert "[4/4]" not in called.out
    assert called.out.startswith("trial ")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--agent-opt", "patch=0"], 0),
        (["--agent-opt", "patch=0", "--fail-under", "0.5"], 1),
        (["--fail-under", "1"], 0),
        (["--agent-opt", "fail=task-1"], 0),
        (["--dataset-opt", "broken=task-1"], 3),
        (["--dataset-opt", "broken=task-1", "--allow-failures"], 0),
        (["--agent-opt", "patch=unscorable"], 3),
        (["--dataset-opt", "n=9", "--dataset-opt", "broken=all"], 1),
        (["--dataset-opt", "n=9", "--dataset-opt", "broken=all", "--stop-after", "0"], 3),
    ],
)
def test_exit_codes(toy, arguments, code):
    first = toy.rollout("--id", "r", "--n-concurrent", "1", *arguments)
    assert first.code == code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dataset-opt", "m=3"], "--dataset-opt m"),
        (["--agent-opt", "cost=much"], "--agent-opt cost"),
        (["--dataset-opt", "twins=true"], "'task-1'"),
        (["--dataset-opt", "raises=instances"], "failed in instances: OSError: the index is offline"),
        (["--dataset-opt", "raises=content_hash"], "failed in content_hash: OSError: the task is offline"),
        (["--instance", "tosk-1"], "task-1"),
        (["--instance", "task-1", "--instance", "other"], "'other'"),
        (["--timeout", "soon"], "--timeout"),
        (["--timeout-multiplier", "0"], "--timeout-multiplier"),
        (["--max-cost-usd", "-1"], "--max-cost-usd"),
        (["--bundle", "eval:1"], "there is no bundle eval:1"),
        (["--retry", "infar"], "--retry"),
        (["--id", "../x"], "--id"),
        (["--nosuch"], "--nosuch"),
        (["--n-concurrent", "0"], "--n-concurrent"),
        (["--trials", "1000000000"], "4000000000 trials of 4 instances, and a run has at most 1000000"),
        (["--dataset-opt", "n=0"], "no instances"),
        (["--model"], "--model"),
    ],
)
def test_what_is_given_wrong_is_one_error_and_nothing_runs(toy, arguments, said):
    called = toy.rollout(*arguments)
    assert called.code == 2
    assert said in called.err
    assert "Traceback" not in called.err
    assert not (toy.path / "runs").exists()
    assert toy.ran() == []


CASES = """
from toy import Dataset as Plain

class Dataset(Plain):
    def instances(self):
        yield {"instance_id": "Task"}
        yield {"instance_id": "task"}
"""


@pytest.mark.parametrize(("ignored", "code"), [(True, 2), (False, 0)])
def test_ids_that_only_case_tells_apart_are_refused_where_the_disk_cannot(toy, monkeypatch, ignored, code):
    from agentix.cli import plan

    (toy.path / "cases.py").write_text(CASES)
    monkeypatch.setattr(plan, "_ignores_case", lambda path: ignored)
    plugins = ["--dataset", "./cases.py:Dataset", "--agent", "./toy.py:Agent", "--provider", "./toy.py:Provider"]
    called = toy.rollout(plugins=plugins)
    assert called.code == code
    assert ("Task-Agent-1 and task-Agent-1 would have one directory" in called.err) == ignored
    assert len(toy.ran()) == (0 if ignored else 2)


def test_verbose_shows_the_traceback_of_an_error(toy):
    assert "Traceback" in toy.rollout("-v", "--dataset-opt", "m=3").err


def test_a_missing_required_option_is_named(toy):
    called = toy.rollout(plugins=[])
    assert called.code == 2
    assert "--dataset" in called.err


def test_selection_and_number_of_trials(toy):
    called = toy.rollout("--id", "r", "--instance", "task-[12]", "--trials", "2")
    assert called.code == 0
    assert sorted(line["trial_id"] for line in toy.lines("r")) == [
        "task-1-Agent-1",
        "task-1-Agent-2",
        "task-2-Agent-1",
        "task-2-Agent-2",
    ]
    assert "2 instances ran repeatedly" in called.out


def test_a_deterministic_agent_runs_once_unless_trials_are_asked_for(toy, monkeypatch):
    once = ["--dataset", "./toy.py:Dataset", "--agent", "./toy.py:Once", "--provider", "./toy.py:Provider"]
    monkeypatch.setenv("AGENTIX_TRIALS", "3")
    called = toy.rollout("--id", "a", plugins=once)
    assert len(toy.lines("a")) == 4
    assert "deterministic" in called.out
    toy.rollout("--id", "b", "--trials", "2", plugins=once)
    assert len(toy.lines("b")) == 8


def test_settings_come_from_the_environment_and_options_win(toy, monkeypatch):
    monkeypatch.setenv("AGENTIX_OUT", "elsewhere")
    monkeypatch.setenv("AGENTIX_PROVIDER", "nosuch")
    assert toy.rollout("--id", "r").code == 0
    assert (toy.path / "elsewhere/r/results.jsonl").exists()


def test_a_run_gets_a_name_of_its_own_each_time(toy):
    toy.rollout("--limit", "1")
    toy.rollout("--limit", "1")
    assert len(list((toy.path / "runs").iterdir())) == 2


def test_a_dry_run_says_what_would_run_and_writes_nothing(toy):
    called = toy.rollout("--id", "r", "--dry-run", "--limit", "2")
    assert called.code == 0
    assert "task-0-Agent-1" in called.out
    assert "task-2" not in called.out
    assert not (toy.path / "runs").exists()
    assert toy.ran() == []


def test_a_budget_stops_the_run_and_names_what_did_not_run(toy):
    called = toy.rollout("--id", "r", "--agent-opt", "cost=1", "--max-cost-usd", "2.5")
    assert called.code == 1
    assert len(toy.lines("r")) == 2
    assert "stopped early: --max-cost-usd" in called.out
    assert "without a result: task-2-Agent-1, task-3-Agent-1" in called.out
    assert "cost $2.0000" in called.out


def test_a_budget_says_that_it_cannot_see_an_unknown_cost(toy):
    called = toy.rollout("--id", "r", "--max-cost-usd", "1")
    assert called.code == 0
    assert called.out.count("what it cost is unknown") == 1
    assert "cost unknown" in called.out


def test_the_breaker_stops_and_says_why(toy):
    called = toy.rollout("--n-concurrent", "1", "--dataset-opt", "n=20", "--dataset-opt", "broken=all")
    assert called.code == 1
    assert "the setup is broken" in called.out
    assert "20 results, have 5" in called.out


def test_results_that_cannot_be_kept_stop_the_run(toy, monkeypatch):
    from agentix.records import commit

    def full(fd, entries):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(commit, "_make_durable", full)
    called = toy.rollout("--id", "r", "--n-concurrent", "1")
    assert called.code == 1
    assert "No space left on device" in called.out
    assert "4 results, have 0" in called.out
    assert len(toy.ran()) < 4


def test_a_result_that_is_none_for_what_is_in_it_costs_its_trial_and_not_the_run(toy):
    called = toy.rollout("--id", "r", "--agent-opt", "cost=nan")
    assert called.code == 3
    assert [line["failure_code"] for line in toy.lines("r")] == ["HOST_ERROR"] * 4
    assert "what the trial gave is no result" in toy.lines("r")[0]["failure_message"]


@pytest.fixture
def full_disk(toy):
    """Mounts a file system of so many KiB at `runs`."""
    out = toy.path / "runs"
    out.mkdir()

    def mount(size: int) -> None:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "none", out], capture_output=True)
        if done.returncode:
            pytest.skip("no file system can be mounted")

    yield mount
    subprocess.run(["umount", out], capture_output=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a file system")
def test_a_disk_that_is_full_from_the_start_is_named_and_nothing_runs(toy, full_disk):
    full_disk(4)
    called = toy.rollout("--id", "r")
    assert called.code == 2
    assert "runs/r: cannot be written: No space left on device" in called.err
    assert toy.ran() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a file system")
def test_a_disk_that_is_full_at_the_end_still_gives_a_summary(toy, full_disk):
    full_disk(24)
    called = toy.rollout("--id", "r", "--dataset-opt", "n=30")
    assert called.code == 1
    assert "could not be kept: [Errno 28] No space left on device" in called.out
    assert "expected 30 results" in called.out
    assert called.err == ""
    assert not [*toy.path.glob("runs/r/.*.tmp")]


def test_ids_of_any_shape_have_a_directory(toy):
    odd = toy.path / "odd.py"
    odd.write_text(
        "class Dataset:\n"
        "    def instances(self):\n"
        "        for name in ['a/b', '..', 'x y', 'n' * 300, 'a-b', '\\udcff', '🚀']:\n"
        "            yield {'instance_id': name}\n"
        "    def image(self, instance): return ''\n"
        "    async def setup(self, sandbox, instance): return True\n"
        "    async def score(self, sandbox, instance, patch): return {'reward': 1}\n"
    )
    plugins = ["--dataset", "./odd.py:Dataset", "--agent", "./toy.py:Agent", "--provider", "./toy.py:Provider"]
    assert toy.rollout("--id", "r", plugins=plugins).code == 0
    run = toy.path / "runs/r"
    assert len(list((run / "trials").iterdir())) == 7
    assert [line["case"] for line in toy.lines("r")].count("a/b") == 1
    assert {p.name for p in toy.path.iterdir() if p.name != "__pycache__"} == {"count", "odd.py", "runs", "toy.py"}


def test_results_that_never_came_are_missed_and_named(toy, monkeypatch):
    from agentix.records import RunWriter

    record = RunWriter.record

    async def dropping(self, rollout, trial, *, agent):
        return None if trial.instance_id == "task-2" else await record(self, rollout, trial, agent=agent)

    monkeypatch.setattr(RunWriter, "record", dropping)
    called = toy.rollout("--id", "r")
    assert called.code == 1
    assert "expected 4 results, have 3; without a result: task-2-Agent-1" in called.out


def test_hooks_are_told_and_a_failing_one_changes_nothing(toy, monkeypatch):
    from agentix.hooks import Hooks, hookimpl

    told = []

    class Watcher:
        @hookimpl
        def agentix_run_started(self, run):
            told.append(("started", run["run_id"]))

        @hookimpl
        def agentix_record_written(self, record):
            told.append(("record", record["case"]))
            raise ValueError("bad hook")

        @hookimpl
        def agentix_run_finished(self, summary):
            told.append(("finished", summary["resolved"]))

    hooks = Hooks()
    assert hooks.register(Watcher(), name="watcher") == []
    monkeypatch.setattr(Hooks, "installed", lambda: (hooks, []))
    assert toy.rollout("--id", "r", "--n-concurrent", "1", "--limit", "2").code == 0
    assert told == [("started", "r"), ("record", "task-0"), ("record", "task-1"), ("finished", 2)]
    assert "bad hook" in (toy.path / "runs/r/run.log").read_text()


def test_a_display_that_fails_does_not_end_the_run(toy, monkeypatch):
    from agentix.cli.display import Plain

    def broken(self, record, board):
        raise RuntimeError("broken display")

    monkeypatch.setattr(Plain, "on_record", broken)
    called = toy.rollout("--id", "r")
    assert called.code == 0
    assert len(toy.lines("r")) == 4
    assert "broken display" in (toy.path / "runs/r/run.log").read_text()
