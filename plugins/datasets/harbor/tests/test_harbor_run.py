"""Tasks run for real on the provider `local`: what happens when, and what is kept."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentix.api import AgentResult, Capability, FailureCode, Limits, SandboxConfig, TimeoutRule, run_rollouts
from agentix.plugins.datasets.harbor import HarborConfig, HarborDataset
from agentix.sandbox import HostProcessProvider

MakeTask = Callable[..., Path]
Run = Callable[..., Any]
Shell = Callable[..., Any]

pytestmark = [pytest.mark.real, pytest.mark.anyio]


def sh(body: str) -> str:
    return f"#!/bin/sh\n{body}\n"


async def test_the_reference_is_rewarded_and_doing_nothing_is_not(task: MakeTask, run: Run, shell: Shell) -> None:
    path = task()
    assert (await run(path)).reward == 1.0
    nothing = await run(path, shell())
    assert (nothing.reward, nothing.resolved, nothing.error) == (0.0, False, None)


async def test_logs_are_kept_on_the_host(task: MakeTask, run: Run, logs: Path, shell: Shell) -> None:
    path = task(test=sh("echo out; echo err >&2; echo 1 > /logs/verifier/reward.txt; exit 7"))
    agent = shell("echo working > /logs/agent/a.log; echo kept > /logs/artifacts/x")
    rollout = await run(path, agent)
    assert rollout.reward == 1.0
    assert rollout.score is not None
    assert rollout.score["verifier_exit"] == 7
    assert (logs / "verifier" / "test-stdout.txt").read_text() == "out\nerr\n"
    assert (logs / "verifier" / "reward.txt").read_text() == "1\n"
    assert (logs / "agent" / "a.log").read_text() == "working\n"
    assert (logs / "artifacts" / "logs" / "artifacts" / "x").read_text() == "kept\n"
    assert not [note for note in rollout.notes if not note.startswith("local:")]


async def test_where_logs_are_kept_no_directory_is_made_that_a_killed_run_would_leave(
    task: MakeTask, run: Run, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    mkdtemp = tempfile.mkdtemp

    def noted(suffix: str | None = None, prefix: str | None = None, dir: str | None = None) -> str:
        made.append(prefix or "")
        return mkdtemp(suffix, prefix, dir)

    monkeypatch.setattr(tempfile, "mkdtemp", noted)
    assert (await run(task())).reward == 1.0
    assert "agentix-harbor-" not in made


async def test_nothing_has_to_be_kept(task: MakeTask, run: Run) -> None:
    assert (await run(task(), keep=False)).reward == 1.0


async def test_timeouts_are_the_tasks_and_the_runs_rules_apply_to_them(task: MakeTask, run: Run) -> None:
    path = task("[verifier]\ntimeout_sec = 600", sh("echo begun; sleep 60"))
    rules = {"score": TimeoutRule(multiplier=0.001)}
    rollout = await run(path, timeouts=rules)
    assert rollout.failure is not None
    assert (rollout.failure.code, rollout.failure.detail) == (FailureCode.VERIFIER_ERROR, "score_timeout")
    assert "0.6 s" in rollout.failure.message


@pytest.mark.parametrize(
    ("script", "note"),
    [
        (b"echo hello > /app/greeting\n", "no shebang"),
        (b"#!/bin/sh\r\necho hello > /app/greeting\r\n", "CRLF"),
        (b"#!/usr/bin/env -S sh -e\necho hello > /app/greeting\n", None),
    ],
)
async def test_scripts_need_neither_run_bit_nor_shebang(
    task: MakeTask, run: Run, script: bytes, note: str | None
) -> None:
    rollout = await run(task(**{"solution/solve.sh": script}))
    assert rollout.reward == 1.0
    test = script.replace(b"echo hello > /app/greeting", b"echo 1 > /logs/verifier/reward.txt")
    rollout = await run(task(name="other", **{"tests/test.sh": test}))
    assert rollout.reward == 1.0
    assert note is None or any(note in said for said in rollout.notes)


async def test_files_next_to_the_scripts_come_along(task: MakeTask, run: Run) -> None:
    path = task(
        test=sh("cp /tests/data/value /logs/verifier/reward.txt"),
        **{
            "tests/data/value": "0.25",
            "solution/lib/a.sh": "",
            "solution/solve.sh": "#!/bin/sh\n. /solution/lib/a.sh\n",
        },
    )
    assert (await run(path)).reward == 0.25


async def test_tests_are_not_there_while_the_agent_works(task: MakeTask, run: Run, shell: Shell) -> None:
    agent = shell("ls /tests/* /solution/* > /app/seen 2> /dev/null; [ -s /app/seen ] && exit 1; echo hello > greeting")
    rollout = await run(task(), agent)
    assert (rollout.reward, rollout.ended) == (1.0, "completed")


async def test_variables_reach_the_phase_that_they_are_for(
    task: MakeTask, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARBOR_TEST_TOKEN", "from-the-host")
    toml = """
    [verifier]
    env = { V = "v" }
    [solution]
    env = { S = "s" }
    [environment]
    network_mode = "no-network"
    env = { E = "${HARBOR_TEST_TOKEN}", D = "${HARBOR_TEST_UNSET:-default}" }
    """
    body = '[ "$(cat /app/seen):$E:$V:$S" = "from-the-host:default:s:from-the-host:v:" ] && r=1 || r=0\n'
    body += "cat /app/seen; echo $r > /logs/verifier/reward.txt"
    solve = "#!/bin/sh\nprintf '%s' \"$E:$D:$S$V\" > /app/seen\n"
    assert (await run(task(toml, sh(body), **{"solution/solve.sh": solve}))).reward == 1.0


@pytest.mark.parametrize(
    ("toml", "key"),
    [
        ('[environment]\nnetwork_mode = "no-network"\nenv = { K = "${HARBOR_TEST_UNSET}" }', "environment.env.K"),
        ('[verifier]\nenv = { K = "${HARBOR_TEST_UNSET}" }', "verifier.env.K"),
        ('[solution]\nenv = { K = "${HARBOR_TEST_UNSET}" }', "solution.env.K"),
        ('[agent]\nnetwork_mode = "no-network"', 'agent is "no-network", verifier is "public"'),
        ('[[artifacts]]\nsource = "/a"\nservice = "db"', "artifacts[0].service"),
    ],
)
async def test_what_a_task_lacks_fails_that_task_by_name(task: MakeTask, run: Run, toml: str, key: str) -> None:
    rollout = await run(task(toml))
    assert rollout.failure is not None
    assert rollout.failure.code == FailureCode.ENV_FAILED
    assert key in rollout.failure.message


@pytest.mark.parametrize("table", ["agent", "verifier"])
@pytest.mark.parametrize("user", ["no-such-user", "4000000000", "99999999999999", "0:4000000000"])
async def test_a_user_that_the_sandbox_does_not_have_fails_the_environment(
    task: MakeTask, run: Run, table: str, user: str
) -> None:
    rollout = await run(task(toml=f'[{table}]\nuser = "{user}"'))
    assert (rollout.reward, rollout.failure.code) == (None, FailureCode.ENV_FAILED)
    assert user.rpartition(":")[2] in rollout.failure.message


async def test_a_task_that_cannot_run_leaves_the_others_alone(
    task: MakeTask, provider: Any, tmp_path: Path, oracle: Any
) -> None:
    task(name="a")
    task('[environment]\nnetwork_mode = "no-network"\nos = "windows"', name="b")
    task(name="c", **{"environment/Dockerfile": "FROM debian\nRUN make\n"})
    task(name="d")
    dataset = HarborDataset(HarborConfig(path=(str(tmp_path / "tasks"),)))
    rollouts = await run_rollouts(dataset=dataset, agent=oracle, provider=provider)
    assert [(r.instance_id, r.reward) for r in rollouts] == [("a", 1.0), ("b", None), ("c", None), ("d", 1.0)]
    assert [r.failure.code for r in rollouts if r.failure] == [FailureCode.ENV_FAILED] * 2


async def test_a_task_without_a_solution_cannot_be_played(task: MakeTask, run: Run) -> None:
    path = task()
    (path / "solution" / "solve.sh").unlink()
    rollout = await run(path)
    assert rollout.failure is not None
    assert (rollout.failure.code, rollout.failure.detail) == (FailureCode.ENV_FAILED, "no_solution")


async def test_users_and_working_directory(task: MakeTask, run: Run, provider: Any) -> None:
    if Capability.USERS not in provider.capabilities:
        pytest.skip("this provider runs commands as one user here")
    toml = """
    [agent]
    user = 1234
    [verifier]
    user = "nobody"
    [environment]
    network_mode = "no-network"
    workdir = "/srv/work"
    """
    body = 'echo "$(id -un) $(pwd) $(cat /tmp/agent)"\n'
    body += '[ "$(id -un) $(pwd) $(cat /tmp/agent)" = "nobody /srv/work 1234 /srv/work" ] && r=1 || r=0\n'
    body += "echo $r > /logs/verifier/reward.txt"
    solve = '#!/bin/sh\necho "$(id -u) $(pwd)" > /tmp/agent; echo log > /logs/agent/x && echo a > /logs/artifacts/x\n'
    rollout = await run(task(toml, sh(body), **{"solution/solve.sh": solve}))
    assert (rollout.reward, rollout.ended) == (1.0, "completed")


async def test_a_healthcheck_is_waited_for(task: MakeTask, run: Run) -> None:
    toml = """
    [environment]
    network_mode = "no-network"
    [environment.healthcheck]
    command = "echo x >> /app/tries; [ $(wc -l < /app/tries) -ge 3 ]"
    interval_sec = 0
    retries = {retries}
    """
    healthy = await run(task(toml.replace("{retries}", "3")))
    assert healthy.reward == 1.0
    ill = await run(task(toml.replace("{retries}", "2"), name="ill"))
    assert ill.failure is not None
    assert (ill.failure.code, ill.failure.detail) == (FailureCode.ENV_FAILED, "healthcheck")
    assert "environment.healthcheck" in ill.failure.message
    started = await run(task(toml.replace("{retries}", "1\nstart_period_sec = 60\nstart_interval_sec = 0"), name="s"))
    assert started.reward == 1.0


async def test_artifacts_are_collected_with_destinations_and_exclusions(
    task: MakeTask, run: Run, logs: Path, shell: Shell
) -> None:
    toml = """
    artifacts = ["/app/one", "two", { source = "/app/tree", destination = "kept/tree", exclude = ["*.o", "cache"] },
                 { source = "/app/three", destination = "kept" }, "/app/none"]
    [[verifier.collect]]
    command = "echo collected > /app/one"
    [[verifier.collect]]
    command = "echo no >&2; exit 3"
    """
    script = "echo 2 > two; echo 3 > three; mkdir -p tree/cache tree/src; touch tree/a.o tree/src/b.o tree/src/b.c"
    script += " tree/cache/x"
    rollout = await run(task(toml), shell(script))
    kept = logs / "artifacts"
    found = sorted(str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file())
    assert found == ["app/one", "app/two", "kept/tree/src/b.c"]
    assert (kept / "app" / "one").read_text() == "collected\n"
    notes = "\n".join(rollout.notes)
    assert "'echo no >&2; exit 3' exited with 3: no" in notes
    assert "/app/three was left out: /app/tree lies at kept" in notes
    assert "there is nothing at /app/none" in notes


STEPS = """
multi_step_reward_strategy = "{strategy}"
[agent]
timeout_sec = 20
[[steps]]
name = "first"
min_reward = {least}
[[steps]]
name = "second"
"""


def steps(strategy: str = "mean", least: str = "0.0", *, first: str = "1", second: str = "0.5") -> dict[str, str]:
    written = "#!/bin/sh\n[ -e /app/{step} ] && r={reward} || r=0\necho $r > /logs/verifier/reward.txt\n"
    return {
        "toml": STEPS.format(strategy=strategy, least=least),
        "steps/first/instruction.md": "<!-- canary -->\nOne.",
        "steps/first/tests/test.sh": written.format(step="first", reward=first),
        "steps/first/solution/solve.sh": "#!/bin/sh\ntouch /app/first; echo 1 > /logs/agent/one\n",
        "steps/second/instruction.md": "Two.",
        "steps/second/tests/test.sh": written.format(step="second", reward=second),
        "steps/second/solution/solve.sh": "#!/bin/sh\n[ -e /logs/agent/one ] || [ -e /tests ] || "
        "[ -e /logs/verifier/reward.txt ] || cp /app/first /app/brought /app/second\n"
        "[ -e /app/first ] && [ -s brought ] && touch /app/second\n",
        "steps/second/workdir/brought": "x",
        "steps/second/workdir/setup.sh": "[ -s brought ] && echo done > /app/set-up\n",
    }


@pytest.mark.parametrize(
    ("strategy", "least", "reward", "ran"),
    [("mean", "0.0", 0.75, 2), ("final", "1.0", 0.5, 2), ("mean", "{ reward = 1.5 }", 1.0, 1), ("final", "2", 1.0, 1)],
)
async def test_steps_share_a_sandbox_and_combine(
    task: MakeTask, run: Run, strategy: str, least: str, reward: float, ran: int, logs: Path
) -> None:
    rollout = await run(task(**steps(strategy, least)))
    assert rollout.failure is None, rollout.failure.message
    assert rollout.reward == reward
    assert [step["name"] for step in rollout.score["steps"]] == ["first", "second"][:ran]
    assert (logs / "first" / "agent" / "one").is_file()
    assert (logs / "first" / "verifier" / "reward.txt").is_file()
    assert ran == 2 or any("stopped after the step 'first'" in note for note in rollout.notes)
    json.dumps(rollout.score)


async def test_each_step_has_its_instruction(task: MakeTask, run: Run, shell: Shell) -> None:
    agent = shell("touch /app/first /app/second")
    assert (await run(task(**steps()), agent)).reward == 0.75
    assert agent.requests == ["One.", "Two."]


async def test_a_step_without_a_valid_reward_leaves_the_trial_unmeasured(task: MakeTask, run: Run) -> None:
    rollout = await run(task(**steps(second="nan")))
    assert rollout.reward is None
    assert rollout.failure is not None
    assert rollout.failure.code == FailureCode.VERIFIER_ERROR


async def test_a_step_that_cannot_be_set_up_fails_the_environment(task: MakeTask, run: Run) -> None:
    rollout = await run(task(**{**steps(), "steps/second/workdir/setup.sh": "echo broken >&2; exit 3\n"}))
    assert rollout.failure is not None
    assert (rollout.failure.code, rollout.failure.detail) == (FailureCode.ENV_FAILED, "step_setup")
    assert "exited with 3: broken" in rollout.failure.message


async def test_files_of_an_environment_that_no_image_brings_are_uploaded(task: MakeTask, provider: Any) -> None:
    toml = '[environment]\nnetwork_mode = "no-network"\ndocker_image = "named:1"\n'
    bare, built = (task(toml, name=name, **{"environment/data/x": "y"}) for name in ("bare", "built"))
    (bare / "environment" / "Dockerfile").unlink()
    for path, expected in ((bare, True), (built, False)):
        dataset = HarborDataset(HarborConfig(path=(str(path),)))
        (instance,) = dataset.instances()
        assert dataset.image(instance) == "named:1"
        async with provider.session(SandboxConfig(workdir="/srv")) as sandbox:
            assert await dataset.setup(sandbox, instance)
            assert await sandbox.exists("/srv/data/x") is expected


async def test_each_step_can_have_a_verifier_of_its_own(task: MakeTask, run: Run, logs: Path) -> None:
    files = steps()
    files["toml"] = files["toml"].replace(
        'name = "second"', 'name = "second"\nartifacts = ["/app/second"]\nverifier = { environment_mode = "separate" }'
    )
    body = "[ -e /app/second ] && [ ! -e /app/first ] && echo 1 > /logs/verifier/reward.txt"
    files["steps/second/tests/test.sh"] = sh(body)
    rollout = await run(task(**files))
    assert rollout.failure is None, rollout.failure.message
    assert [step["reward"] for step in rollout.score["steps"]] == [1.0, 1.0]
    assert (logs / "second" / "artifacts" / "app" / "second").is_file()
    assert (logs / "second" / "verifier" / "reward.txt").is_file()


async def test_a_provider_without_isolation_is_refused_before_anything_is_touched(task: MakeTask, oracle: Any) -> None:
    dataset = HarborDataset(HarborConfig(path=(str(task()),)))
    async with HostProcessProvider() as provider:
        (rollout,) = await run_rollouts(dataset=dataset, agent=oracle, provider=provider)
    assert rollout.failure is not None
    assert rollout.failure.code == FailureCode.ENV_FAILED


async def test_the_default_agent_time_is_unlimited_and_a_limit_of_the_run_wins(
    task: MakeTask, run: Run, shell: Shell
) -> None:
    rollout = await run(task("[agent]\ntimeout_sec = 60"), shell("sleep 60"), limits=Limits(agent_s=0.5))
    assert (rollout.ended, rollout.reward) == ("timeout", 0.0)


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_it_runs_under_trio_too(task: MakeTask, run: Run, anyio_backend: str) -> None:
    assert (await run(task())).reward == 1.0
    with anyio.fail_after(60):
        assert (await run(task(name="steps", **steps()))).reward == 0.75


async def test_an_agent_is_told_where_the_tasks_skills_are(task: MakeTask, run: Run) -> None:
    told: list[str | None] = []

    class Asks:
        async def solve(
            self, sandbox: Any, instance: dict[str, Any], *, model: str | None, context: Any
        ) -> AgentResult:
            told.append(context.skills_dir)
            return AgentResult(exit_code=0)

    await run(task('[environment]\nnetwork_mode = "no-network"\nskills_dir = "/skills"'), Asks())
    await run(task(), Asks())
    assert told == ["/skills", None]


async def test_a_separate_verifiers_sandbox_is_made_while_the_agent_works(
    task: MakeTask, run: Run, provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    ids: set[str] = set()
    create = provider.create

    async def noted(config: SandboxConfig, runtime: Any) -> Any:
        made.append(str(config.env.get("WHO")))
        info = await create(config, runtime)
        ids.add(info.id)
        return info

    monkeypatch.setattr(provider, "create", noted)

    class Waits:
        async def solve(
            self, sandbox: Any, instance: dict[str, Any], *, model: str | None, context: Any
        ) -> AgentResult:
            with anyio.fail_after(60):
                while "verifier" not in made:  # noqa: ASYNC110
                    await anyio.sleep(0.005)
            await sandbox.exec("echo hello > /logs/artifacts/greeting")
            return AgentResult(exit_code=0)

    toml = '[verifier.environment]\nnetwork_mode = "no-network"\nenv = { WHO = "verifier" }\n'
    test = sh('[ "$WHO" = verifier ] && grep -qx hello /logs/artifacts/greeting && echo 1 > /logs/verifier/reward.txt')
    rollout = await run(task(toml, test), Waits(), prepare_ahead=1)
    assert rollout.reward == 1.0, rollout
    assert made.count("verifier") == 1
    # Other tests have sandboxes at the same time.
    assert not ids & {info.id for info in await provider.list({})}


async def test_tests_that_cannot_have_another_process_are_no_meddling(
    task: MakeTask, run: Run, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentix.plugins.datasets.harbor.verifier import Verifier

    async def full(self: Verifier, sandbox: Any) -> Any:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(Verifier, "_run_tests", full)
    rollout = await run(task(), shell())
    assert rollout.failure is not None
    assert (rollout.failure.code, rollout.failure.detail) == (FailureCode.VERIFIER_ERROR, "resources")
