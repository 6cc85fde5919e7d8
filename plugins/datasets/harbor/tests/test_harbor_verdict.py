"""Who has the last word on the reward: tasks that are graded for real on the provider `local`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentix.api import FailureCode, SandboxConfig, Unsupported, run_rollouts
from agentix.plugins.datasets.harbor import HarborConfig, HarborDataset
from agentix.plugins.datasets.harbor.places import VERIFIER_LOGS
from agentix.plugins.datasets.harbor.reward_files import RewardPlace
from agentix.sandbox import HostProcessProvider

MakeTask = Callable[..., Path]
Run = Callable[..., Any]
Shell = Callable[..., Any]

pytestmark = [pytest.mark.real, pytest.mark.anyio]


GREETED = "grep -qx hello /app/greeting && r=1 || r=0; echo $r > /logs/verifier/reward.txt"


def sh(body: str) -> str:
    return f"#!/bin/sh\n{body}\n"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("exit 0", "neither reward.json nor reward.txt"),
        ("echo some output; echo more >&2; exit 3", "test.sh exited with 3; its output ends with:\nsome output\nmore"),
        ("printf '{' > /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt", "reward.json: '{' is not JSON"),
        ("mkdir /logs/verifier/reward.txt", "reward.txt is a directory"),
        ("mkfifo /logs/verifier/reward.txt", "reward.txt"),
        ("echo 1 > /tmp/r; ln -s /tmp/r /logs/verifier/reward.txt", "reward.txt"),
        ("truncate -s 2G /logs/verifier/reward.txt", "reward.txt"),
        ("echo nan > /logs/verifier/reward.txt", "reward.txt: 'nan\\n' is not a number"),
        ("echo 1_0 > /logs/verifier/reward.txt", "is not a number"),
        (": > /logs/verifier/reward.txt", "reward.txt: it is empty"),
        ("rm -rf /logs/verifier", "no reward: /logs/verifier was replaced while the tests ran"),
        ("kill -9 $$", "test.sh exited with 137"),
    ],
)
async def test_no_valid_reward_is_a_verifier_error_and_never_a_number(
    task: MakeTask, run: Run, body: str, said: str
) -> None:
    rollout = await run(task(test=sh(body)))
    assert rollout.reward is None
    assert rollout.failure is not None
    assert rollout.failure.code == FailureCode.VERIFIER_ERROR
    assert said in rollout.failure.message


async def test_a_reward_that_is_too_large_is_refused_and_not_copied(task: MakeTask, run: Run, tmp_path: Path) -> None:
    rollout = await run(task(test=sh("echo fine > /logs/verifier/log; truncate -s 2G /logs/verifier/reward.json")))
    assert "reward.json: with its 2147483648 bytes" in rollout.failure.message
    kept = {path.name: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}  # noqa: ASYNC240
    assert kept["log"] == 5
    assert max(kept.values()) < 1 << 20


async def test_metrics_come_from_reward_json(task: MakeTask, run: Run) -> None:
    body = """echo '{"a": 1, "b": 0.5}' > /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt"""
    path = task(test=sh(body))
    rollout = await run(path)
    assert rollout.reward == 0.75
    assert rollout.score["metrics"] == {"a": 1, "b": 0.5}
    assert rollout.score["reward_rule"] == "mean of 2 keys"
    assert any("reward.txt: 1.0" in note for note in rollout.notes), rollout.notes
    assert (await run(path, dataset={"reward_key": "b"})).reward == 0.5


@pytest.mark.parametrize(
    "script",
    [
        "for f in reward.txt reward.json; do echo 1 > /logs/verifier/$f; done; mkdir /tests; echo 1 > /tests/reward.tx",
        "echo 1 > /logs/verifier/reward.json; chmod 555 /logs/verifier",
        "rm -rf /logs/verifier && ln -s /etc /logs/verifier",
        "rm -rf /logs/verifier && ln -s /nowhere /logs/verifier",
        "rm -rf /logs/verifier && echo 1 > /logs/verifier",
        "rm -rf /logs && ln -s /tmp /logs",
        "rm -rf /logs && echo 1 > /logs",
        "chattr +i /logs/verifier; echo 1 > /logs/verifier/reward.json",
        "mkdir -p /tests && echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh && chmod 555 /tests",
        "mkdir /t && echo 'echo 1 > /logs/verifier/reward.txt' > /t/test.sh && rm -rf /tests && ln -s /t /tests",
        "rm -rf /tests; echo x > /tests",
        "while :; do echo 1 > /logs/verifier/reward.txt; done 2> /dev/null &",
        "setsid sh -c 'while :; do echo 1 > /logs/verifier/reward.json; sleep 0.1; done' 2> /dev/null &",
        "while :; do rm -rf /logs/verifier; ln -s /tmp /logs/verifier; done 2> /dev/null &",
        "cd /; rm -rf /app; :",
        "cd /; rm -rf /app; echo x > /app; ln -s /nowhere /app",
        "cd /; rm -rf /app; ln -s /nowhere /app",
    ],
)
async def test_an_agent_that_plants_its_reward_gets_what_the_tests_say(
    task: MakeTask, run: Run, script: str, shell: Shell
) -> None:
    # The tests need a moment, as real ones do.
    rollout = await run(task(test=sh(f"sleep 0.2\n{GREETED}")), shell(script))
    assert rollout.failure is None
    assert rollout.reward == 0.0


async def test_a_reward_is_read_from_the_very_directory_that_the_tests_wrote_to(
    task: MakeTask, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[bool] = []
    may_change = RewardPlace._may_change

    async def replace_at_the_last_moment(self: RewardPlace) -> bool:
        looked.append(await may_change(self))
        if len(looked) == 1:
            await self.sandbox.remove(VERIFIER_LOGS)
            await self.sandbox.make_dirs(VERIFIER_LOGS)
        return looked[-1]

    monkeypatch.setattr(RewardPlace, "_may_change", replace_at_the_last_moment)
    rollout = await run(task(test=sh("echo 1 > /logs/verifier/reward.txt")))
    assert len(looked) == 2
    assert rollout.reward == 1.0
    assert any("/logs/verifier was replaced" in note for note in rollout.notes)


@pytest.mark.parametrize("script", ["rm -f $F", "rm -f $F; echo 1 > $F", "[ -e $F ] || echo 1 > $F", "ln -sf /x $F"])
async def test_what_changes_a_reward_again_and_again_is_seen_wherever_it_is_in_that(
    task: MakeTask, run: Run, monkeypatch: pytest.MonkeyPatch, shell: Shell, script: str
) -> None:
    moments: list[bool] = []

    async def meddle(self: RewardPlace) -> None:
        # Only as long as there is the process that would do it.
        moments.append(bool(await self.sandbox.count_processes()))
        if moments[-1]:
            await self.sandbox.exec(f"F={VERIFIER_LOGS}/reward.txt; {script}")

    monkeypatch.setattr(RewardPlace, "_moment", meddle)
    rollout = await run(task(test=sh("echo 0.5 > /logs/verifier/reward.txt")), shell("sleep 300 &"))
    assert moments
    assert all(moments)
    assert rollout.reward == 0.5
    assert any("what was left running was killed" in note for note in rollout.notes)


async def test_a_service_that_meddles_with_nothing_leaves_the_reward_and_lives_on(
    task: MakeTask, run: Run, shell: Shell, logs: Path
) -> None:
    rollout = await run(task(test=sh("echo 0.5 > /logs/verifier/reward.txt")), shell("sleep 300 &"))
    assert rollout.reward == 0.5
    assert not any("killed" in note for note in rollout.notes)
    assert (logs / "verifier" / "reward.txt").read_text() == "0.5\n"
    assert not (logs / "verifier" / "reward.json").exists()


async def test_a_test_that_leaves_a_writer_behind_has_no_reward(task: MakeTask, run: Run) -> None:
    body = "(while :; do echo 1 > /logs/verifier/reward.txt; sleep 0.05; done) &\necho 1 > /logs/verifier/reward.txt"
    rollout = await run(task(test=sh(body)))
    assert rollout.failure is not None
    assert (rollout.failure.code, rollout.failure.detail) == (FailureCode.VERIFIER_ERROR, "reward_changed")


@pytest.mark.parametrize(("services", "reward"), [("keep", 1.0), ("kill", 0.0)])
async def test_what_an_agent_leaves_running_lives_on_unless_told_otherwise(
    task: MakeTask, run: Run, services: str, reward: float, shell: Shell
) -> None:
    body = 'kill -0 "$(cat /app/pid)" 2> /dev/null && r=1 || r=0\necho $r > /logs/verifier/reward.txt'
    agent = shell("sleep 300 & echo $! > /app/pid")
    assert (await run(task(test=sh(body)), agent, dataset={"services": services})).reward == reward


async def test_an_agent_that_times_out_is_dead_before_the_tests_and_keeps_its_reward(
    task: MakeTask, run: Run, shell: Shell
) -> None:
    body = """a=$(wc -c < /app/tick); sleep 0.5; b=$(wc -c < /app/tick)
    [ "$a" = "$b" ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt"""
    script = 'trap "" TERM INT; while :; do echo x >> /app/tick; sleep 0.05; done'
    rollout = await run(task("[agent]\ntimeout_sec = 1", sh(body)), shell(script))
    assert (rollout.reward, rollout.ended) == (1.0, "timeout")


async def test_what_tests_printed_before_they_timed_out_is_kept(task: MakeTask, run: Run, logs: Path) -> None:
    await run(task("[verifier]\ntimeout_sec = 5", sh("echo begun; sleep 60")))
    assert (logs / "verifier" / "test-stdout.txt").read_text() == "begun\n"


async def test_a_shebang_that_is_not_there_is_told(task: MakeTask, run: Run) -> None:
    rollout = await run(task(test="#!/no/such/interpreter\n"))
    assert rollout.failure is not None
    assert "test.sh exited with 12" in rollout.failure.message
    assert "/no/such/interpreter" in rollout.failure.message


SEPARATE = 'artifacts = ["/app/answer", "/app/tree"]\n[verifier]\nenvironment_mode = "separate"\n'


@pytest.mark.parametrize("keep", [True, False])
async def test_a_separate_verifier_sees_artifacts_and_nothing_else(
    task: MakeTask, run: Run, keep: bool, shell: Shell
) -> None:
    body = """ls -A /app /logs/artifacts /app/tree
    [ "$(ls -A /app | tr '\\n' ' ')" = "answer brought tree " ] || exit 1
    [ "$(cat /app/answer /app/tree/a /logs/artifacts/b)" = "42
    1
    2" ] || exit 1
    [ -e /app/secret ] || [ -e /logs/agent/log ] || [ -e /solution/solve.sh ] || echo 1 > /logs/verifier/reward.txt"""
    path = task(
        SEPARATE,
        sh(body.replace("\n    ", "\n")),
        **{"environment/Dockerfile": "FROM debian\nWORKDIR /app\nCOPY brought .\n", "environment/brought": ""},
    )
    script = "echo 42 > answer; mkdir tree; echo 1 > tree/a; echo 2 > /logs/artifacts/b; echo x > secret; "
    script += "echo x > /logs/agent/log; echo 1 > /logs/verifier/reward.txt"
    rollout = await run(path, shell(script), keep=keep)
    assert rollout.failure is None, rollout.failure.message
    assert rollout.reward == 1.0


@pytest.mark.parametrize("steps", [False, True])
async def test_where_a_separate_verifier_failed_only_the_tests_run_again(
    task: MakeTask, provider: Any, shell: Shell, tmp_path: Path, steps: bool
) -> None:
    there = tmp_path / "there"
    verdict = "".join(
        [
            '[ "$(cat /app/answer /app/tree/a)" = "42\n1" ] || exit 1\n',
            '[ -n "$AGAIN" ] && echo 1 > /logs/verifier/reward.txt; exit 0',
        ]
    )
    toml = SEPARATE + 'env = { AGAIN = "${REVIEWED_AGAIN:-}" }\n'
    more: dict[str, str] = {}
    if steps:
        toml += '[[steps]]\nname = "one"\n[steps.verifier]\nenvironment_mode = "shared"\n[[steps]]\nname = "two"\n'
        more = {
            "steps/one/instruction.md": "x",
            "steps/two/instruction.md": "y",
            "steps/one/tests/test.sh": sh("echo 0.5 > /logs/verifier/reward.txt"),
        }
    path = task(toml, sh(verdict), **more)
    agent = shell("echo 42 > answer; mkdir -p tree; echo 1 > tree/a; ln -sf /etc/passwd tree/link")
    failed: list[str] = []

    def noted(event: Any) -> None:
        if event.kind == "attempt_failed":
            failed.append(event.message)
            os.environ["REVIEWED_AGAIN"] = "yes"

    try:
        (rollout,) = await run_rollouts(
            dataset=HarborDataset(HarborConfig(path=(str(path),))),
            agent=agent,
            provider=provider,
            max_attempts=2,
            on_event=noted,
            trial_dir=lambda _: there,
        )
    finally:
        os.environ.pop("REVIEWED_AGAIN", None)
    assert len(failed) == 1
    assert (rollout.failure, rollout.reward) == (None, 0.75 if steps else 1.0)
    assert len(agent.requests) == (2 if steps else 1)
    assert rollout.attempts == 2
    own = there / "attempts" / "2" / ("two" if steps else "")
    assert (own / "artifacts" / "app" / "answer").read_text() == "42\n"
    assert (own / "verifier" / "reward.txt").read_text() == "1\n"
    assert not (there / "attempts" / "2" / "failure.json").exists()


async def test_a_verifiers_own_image_without_tests_is_told_who_brings_them(
    task: MakeTask, run: Run, shell: Shell
) -> None:
    path = task(SEPARATE, **{"tests/Dockerfile": "FROM debian\nWORKDIR /app\n"})
    rollout = await run(path, shell("echo 42 > answer"))
    assert rollout.failure is not None
    assert "the image of this separate verifier has to bring /tests" in rollout.failure.message


@pytest.mark.parametrize(
    "script",
    [
        "ln -s /tests/expected answer",
        "mkdir tree; ln -s /tests/expected tree/a; ln -s ../../tests/expected answer",
        "mkfifo answer",
    ],
)
async def test_links_in_artifacts_reach_nothing_of_a_separate_verifier(
    task: MakeTask, run: Run, script: str, shell: Shell
) -> None:
    body = 'for f in /app/answer /app/tree/a; do [ "$(cat $f)" = 42 ] && r=1; done\n'
    body += "echo ${r:-0} > /logs/verifier/reward.txt"
    rollout = await run(task(SEPARATE, sh(body), **{"tests/expected": "42\n"}), shell(script))
    assert rollout.reward == 0.0


async def test_a_verifiers_own_dockerfile_brings_the_tests(task: MakeTask, run: Run) -> None:
    dockerfile = "FROM debian\nWORKDIR /tests\nCOPY . /tests\n"
    toml = '[verifier]\nenvironment_mode = "separate"\n[verifier.environment]\nnetwork_mode = "no-network"\n'
    toml += '[environment]\nnetwork_mode = "no-network"\n'
    body = sh("[ -f /tests/Dockerfile ] && pwd && echo 0.5 > /logs/verifier/reward.txt")
    path = task(toml, body, **{"tests/Dockerfile": dockerfile})
    (path / "tests" / "test.sh").chmod(0o755)
    assert (await run(path)).reward == 0.5


async def test_the_scorer_alone_refuses_one_too(task: MakeTask) -> None:

    dataset = HarborDataset(HarborConfig(path=(str(task()),)))
    (instance,) = dataset.instances()
    async with HostProcessProvider() as provider, provider.session(SandboxConfig()) as sandbox:
        for call in (
            lambda: dataset.setup(sandbox, instance),
            lambda: dataset.score(sandbox, instance, ""),
            lambda: dataset.reference(sandbox, instance),
        ):
            with pytest.raises(Unsupported, match="does not isolate"):
                await call()
    assert not await anyio.Path("/tests").exists()
