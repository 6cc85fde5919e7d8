"""Whole trials with real commands: whose work is kept, what is scored, and flows that a dataset drives."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from agentix.errors import EnvFailed, VerifierError
from agentix.interfaces import Flow
from agentix.models import AgentResult, Limits, McpServer, SandboxConfig, TimeoutRule
from agentix.patch import apply_patch
from agentix.runner import Rollout, run_rollouts
from agentix.testing.fakes import FakeAgent, FakeDataset, FakeProvider
from agentix.testing.scripts import Action, fail, hang

pytestmark = pytest.mark.anyio


class Greeting(FakeDataset):
    """The task is to make greeting.txt say hello."""

    def __init__(self, **options: Any) -> None:
        super().__init__([{"instance_id": "greeting", "instruction": "Say hello."}], **options)

    async def setup(self, sandbox: Any, instance: dict[str, Any]) -> bool:
        await sandbox.write_file("greeting.txt", b"good bye\n")
        return await super().setup(sandbox, instance)

    async def score(self, sandbox: Any, instance: dict[str, Any], patch: str) -> dict[str, Any]:
        if self.scoring(instance) == "fresh":
            await sandbox.write_file("greeting.txt", b"good bye\n")
            await apply_patch(sandbox, patch, sandbox.workdir)
        text = await sandbox.read_file("greeting.txt")
        return {"resolved": text == b"hello\n", "seen": text.decode()}


async def greet(sandbox: Any, instance: dict[str, Any]) -> AgentResult | None:
    result = await sandbox.exec("echo hello > greeting.txt")
    assert result.ok
    return None


async def one(agent: Any, dataset: Any = None, **options: Any) -> Rollout:
    provider = FakeProvider()
    (rollout,) = await run_rollouts(dataset=dataset or Greeting(), agent=agent, provider=provider, **options)
    assert not provider.live
    return rollout


@pytest.mark.parametrize("scoring", ["fresh", "shared"])
async def test_what_the_agent_changed_is_the_patch(scoring: Any) -> None:
    rollout = await one(FakeAgent(patch="", work=greet), Greeting(scoring=scoring))
    assert (rollout.error, rollout.resolved) == (None, True)
    assert "-good bye\n+hello\n" in rollout.patch
    assert rollout.patch.startswith("diff --git a/greeting.txt b/greeting.txt")
    assert rollout.phases["collect"] > 0


async def test_an_agent_that_changed_nothing_gives_an_empty_patch() -> None:
    async def look(sandbox: Any, instance: dict[str, Any]) -> None:
        await sandbox.exec("cat greeting.txt")

    rollout = await one(FakeAgent(patch="", work=look))
    assert (rollout.patch, rollout.skipped, rollout.reward) == ("", "empty_patch", 0.0)


async def test_a_sandbox_that_only_the_agent_used_has_an_empty_base() -> None:
    dataset = FakeDataset(1, score=lambda patch: {"resolved": "+hello" in patch})
    rollout = await one(FakeAgent(patch="", work=greet), dataset)
    assert rollout.resolved
    assert "new file mode" in rollout.patch


async def test_bytes_that_are_no_text_survive_in_the_patch() -> None:
    async def work(sandbox: Any, instance: dict[str, Any]) -> None:
        await sandbox.write_file("greeting.txt", b"caf\xe9\r\nno end")

    rollout = await one(FakeAgent(patch="", work=work), FakeDataset(1, score={"reward": 1}))
    assert b"+caf\xe9\r\n+no end\n\\ No newline" in rollout.patch.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("scoring", ["fresh", "shared"])
@pytest.mark.parametrize(
    ("action", "ended"), [(hang(), "timeout"), (fail(ValueError("late")), "agent_error")], ids=["timeout", "error"]
)
async def test_work_before_a_bad_end_is_kept_scored_and_measured(scoring: Any, action: Action, ended: str) -> None:
    rollout = await one(
        FakeAgent(patch="", work=greet, on={"solve": action}), Greeting(scoring=scoring), limits=Limits(agent_s=6)
    )
    assert (rollout.error, rollout.reward, rollout.ended) == (None, 1.0, ended)
    assert "+hello" in rollout.patch


async def test_an_agent_that_exits_with_an_error_after_its_work_is_measured() -> None:
    async def work(sandbox: Any, instance: dict[str, Any]) -> AgentResult:
        done = await sandbox.exec("echo hello > greeting.txt; exit 3")
        return AgentResult(exit_code=done.exit_code)

    rollout = await one(FakeAgent(work=work))
    assert (rollout.reward, rollout.ended, rollout.agent_exit) == (1.0, "agent_error", 3)


async def test_processes_of_an_agent_that_was_stopped_are_dead_before_scoring() -> None:
    async def work(sandbox: Any, instance: dict[str, Any]) -> None:
        await sandbox.exec("trap '' TERM; (while :; do echo x >> tick; sleep 0.01; done) & echo $! > pid")

    class Shared(FakeDataset):
        async def score(self, sandbox: Any, instance: dict[str, Any], patch: str) -> dict[str, Any]:
            pid = (await sandbox.read_file("pid")).decode().strip()
            alive = await sandbox.exec(f"kill -0 {pid} 2>/dev/null && echo alive || echo dead")
            return {"resolved": alive.text == "dead\n"}

    agent = FakeAgent(work=work, on={"solve": hang()})
    assert (await one(agent, Shared(1, scoring="shared", answer="state"), limits=Limits(agent_s=6))).resolved


async def test_services_that_the_agent_left_running_serve_a_shared_scorer() -> None:
    async def work(sandbox: Any, instance: dict[str, Any]) -> AgentResult:
        await sandbox.exec("sleep 300 & echo $! > pid")
        return AgentResult(exit_code=0)

    class Shared(FakeDataset):
        async def score(self, sandbox: Any, instance: dict[str, Any], patch: str) -> dict[str, Any]:
            pid = (await sandbox.read_file("pid")).decode().strip()
            return {"resolved": (await sandbox.exec(f"kill -0 {pid}")).ok}

    assert (await one(FakeAgent(work=work), Shared(1, scoring="shared", answer="state"))).resolved


async def test_a_tree_that_cannot_be_read_is_an_error_for_a_patch_and_a_note_for_a_state() -> None:
    config = SandboxConfig(workdir="/absent/for/agentix")
    patch = await one(FakeAgent(patch=""), FakeDataset(1, config=config))
    assert patch.failure is not None
    assert (patch.failure.code, patch.failure.detail) == ("HOST_ERROR", "patch_capture")
    state = await one(FakeAgent(patch=""), FakeDataset(1, config=config, answer="state", score={"reward": 1}))
    assert state.reward == 1.0
    assert any("patch was not captured" in note for note in state.notes)


async def test_the_work_of_an_agent_that_lost_its_model_is_kept_though_not_scored() -> None:
    rollout = await one(FakeAgent(patch="", work=greet, on={"solve": fail(EnvFailed("no key"))}))
    assert rollout.failure is not None
    assert rollout.failure.code == "ENV_FAILED"
    assert "+hello" in rollout.patch
    assert rollout.score is None


async def test_artifacts_are_kept_under_their_paths(tmp_path: Path) -> None:
    async def work(sandbox: Any, instance: dict[str, Any]) -> None:
        await sandbox.exec("mkdir -p out/deep; echo 1 > out/deep/a; echo 2 > log; mkfifo out/pipe; ln -s /etc out/etc")

    rollout = await one(
        FakeAgent(work=work),
        FakeDataset(1, artifacts=["out", "log", "absent"]),
        trial_dir=lambda trial: tmp_path,
    )
    assert rollout.reward == 1.0
    kept = sorted(p.name for p in (tmp_path / "attempts" / "1" / "artifacts").rglob("*") if p.is_file())
    assert kept == ["a", "log"]
    assert any("pipe" in note for note in rollout.notes)


async def test_artifacts_that_cannot_be_collected_do_not_change_the_result(tmp_path: Path) -> None:
    class Broken(FakeDataset):
        def artifacts(self, instance: dict[str, Any]) -> Any:
            raise KeyError("artifacts")

    rollout = await one(FakeAgent(), Broken(1), trial_dir=lambda trial: tmp_path)
    assert rollout.reward == 1.0
    assert any("artifacts were not collected" in note for note in rollout.notes)


class Stepwise(FakeDataset):
    """Two steps in one sandbox, then a separate place to score; the flow is the dataset's own."""

    answer: Any = "state"

    def __init__(self, *, on: Any = None, step_s: float = 60) -> None:
        super().__init__([{"instance_id": "steps"}], on=on)
        self.step_s = step_s

    async def drive(self, flow: Flow, instance: dict[str, Any]) -> dict[str, Any] | None:
        sandbox = await flow.setup()
        # The time of its start is none of a step's.
        await sandbox.exec("true")
        results = []
        for step in ("one", "two"):
            results.append(await flow.solve(sandbox, instruction=f"step {step}", name=step, timeout_s=self.step_s))
        copies = await flow.collect(sandbox, ["out"], into="handed-over")
        assert [p.parts[-1] for p in copies] == ["out"]
        await flow.close(sandbox)
        flow.note(f"ended {[r.ended for r in results]}")
        async with flow.fresh_sandbox(SandboxConfig(env={"GRADER": "1"})) as fresh:
            await fresh.upload(copies[0], "out")

            async def grade() -> dict[str, Any]:
                text = (await fresh.exec("cat out/*; echo $GRADER")).text
                return {"reward": float(text == "step one\nstep two\n1\n"), "text": text}

            return await flow.score(grade, timeout_s=60)


async def step(sandbox: Any, instance: dict[str, Any]) -> None:
    await sandbox.make_dirs("out")
    await sandbox.exec(["sh", "-c", 'echo "$1" >> out/said', "-", instance["instruction"]])


async def test_a_dataset_may_drive_its_own_flow(tmp_path: Path) -> None:
    rollout = await one(FakeAgent(patch="", work=step), Stepwise(), trial_dir=lambda trial: tmp_path)
    assert (rollout.error, rollout.reward) == (None, 1.0)
    assert rollout.score is not None
    assert rollout.score["text"] == "step one\nstep two\n1\n"
    assert rollout.info["solves"] == [
        {"name": "one", "ended": "completed", "exit_code": 0},
        {"name": "two", "ended": "completed", "exit_code": 0},
    ]
    assert (tmp_path / "attempts" / "1" / "handed-over").is_dir()
    assert rollout.notes[0] == "ended ['completed', 'completed']"


class Between(Stepwise):
    """Puts files into the tree before each step, one of them over what the agent wrote."""

    async def drive(self, flow: Flow, instance: dict[str, Any]) -> dict[str, Any] | None:
        sandbox = await flow.setup()
        for step in ("one", "two", "three"):
            if step != "one":
                await sandbox.write_file(f"given/{step}", b"the dataset's\n")
                await sandbox.write_file("over", b"the dataset's\n")
            await flow.solve(sandbox, instruction=step, name=step)
        return {"reward": 1.0}


@pytest.mark.parametrize("idle", ["", "one"])
async def test_what_the_dataset_puts_there_between_steps_is_not_in_the_patch(idle: str) -> None:
    async def work(sandbox: Any, instance: dict[str, Any]) -> None:
        if instance["instruction"] != idle:
            await sandbox.exec(["sh", "-c", 'echo "$1" >> mine; echo "$1" > over; rm -f given/two', "-", "x"])

    rollout = await one(FakeAgent(patch="", work=work), Between())
    assert rollout.error is None
    changed = [line for line in rollout.patch.splitlines() if line.startswith("diff --git")]
    assert changed == [
        "diff --git a/given/two b/given/two",
        "diff --git a/mine b/mine",
        "diff --git a/over b/over",
    ]
    assert "-the dataset's\n+x" in rollout.patch
    assert "given/three" not in rollout.patch


async def test_a_tasks_own_timeout_is_subject_to_the_runs_rule(tmp_path: Path) -> None:
    agent = FakeAgent(patch="", work=step, on={"solve": hang()})
    rollout = await one(
        agent, Stepwise(step_s=0.5), trial_dir=lambda trial: tmp_path, timeouts={"agent": TimeoutRule(multiplier=6)}
    )
    assert (rollout.reward, rollout.ended) == (1.0, "timeout")
    # Two steps of 3 s; a rule that was applied twice would make 36 s of them.
    assert 6 <= rollout.phases["agent"] < 36


async def test_a_flow_that_gives_none_gets_the_default_one() -> None:
    class Sometimes(FakeDataset):
        async def drive(self, flow: Flow, instance: dict[str, Any]) -> dict[str, Any] | None:
            return None

    assert (await one(FakeAgent(), Sometimes(1))).reward == 1.0


@pytest.mark.parametrize(
    ("error", "expected"),
    [(KeyError("step"), ("ENV_FAILED", "dataset")), (VerifierError("bad"), ("VERIFIER_ERROR", "dataset"))],
)
async def test_an_error_of_the_flow_itself_is_the_datasets(error: Exception, expected: tuple[str, str]) -> None:
    class Broken(FakeDataset):
        async def drive(self, flow: Flow, instance: dict[str, Any]) -> dict[str, Any] | None:
            await flow.setup()
            raise error

    failure = (await one(FakeAgent(), Broken(1))).failure
    assert failure is not None
    assert (failure.code, failure.boundary) == expected


async def test_a_flow_that_leaves_sandboxes_open_or_closes_them_twice_leaves_nothing() -> None:
    class Careless(FakeDataset):
        async def drive(self, flow: Flow, instance: dict[str, Any]) -> dict[str, Any] | None:
            first = await flow.setup()
            second = await flow.setup()
            await flow.close(first)
            await flow.close(first)
            await second.exec("true")
            return {"reward": 1}

    assert (await one(FakeAgent(), Careless(1))).reward == 1.0


async def test_a_flow_whose_score_was_never_checked_is_checked() -> None:
    class Wrong(FakeDataset):
        async def drive(self, flow: Flow, instance: dict[str, Any]) -> dict[str, Any] | None:
            return {"reward": "1"}

    failure = (await one(FakeAgent(), Wrong(1))).failure
    assert failure is not None
    assert (failure.code, failure.detail, failure.boundary) == ("VERIFIER_ERROR", "invalid_reward", "scorer")


async def test_nothing_of_a_real_sandbox_is_left_in_the_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests have sandboxes in the common one at the same time.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    meanwhile: list[str] = []

    async def look(sandbox: Any, instance: dict[str, Any]) -> None:
        await greet(sandbox, instance)
        meanwhile.extend(os.listdir(tmp_path))

    await one(FakeAgent(patch="", work=look))
    assert [name for name in meanwhile if name.startswith("agentix-fake")]
    assert os.listdir(tmp_path) == []


class WithServers(Greeting):
    """A task that brings a tool server."""

    def mcp_servers(self, instance: dict[str, Any]) -> list[McpServer]:
        return [McpServer(name="tools", transport="sse", url="http://127.0.0.1:1/sse")]


async def test_an_agent_is_told_of_the_tasks_mcp_servers() -> None:
    told: list[Any] = []

    class Told:
        async def solve(self, sandbox: Any, instance: Any, *, model: str | None, context: Any) -> AgentResult:
            told.extend(context.mcp_servers)
            return AgentResult()

    await one(Told(), WithServers())
    await one(Told())
    assert [server.name for server in told] == ["tools"]


async def test_an_agent_that_cannot_use_mcp_servers_is_refused_unless_it_needs_none() -> None:
    class Deaf:
        deterministic = False

        async def solve(self, sandbox: Any, instance: Any, *, model: str | None) -> AgentResult:
            return AgentResult()

    rollout = await one(Deaf(), WithServers())
    assert rollout.failure is not None
    assert (rollout.failure.code, rollout.failure.detail) == ("ENV_FAILED", "unsupported")
    assert "(tools)" in rollout.failure.message
    assert (await one(Deaf())).failure is None

    class Nothing(Deaf):
        deterministic = True

    assert (await one(Nothing(), WithServers())).failure is None
