"""Tasks that are not as they should be."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.real


def test_a_path_without_a_task_is_one_error(shop: Any) -> None:
    (shop.path / "tasks/empty").mkdir(parents=True)
    done = shop.run("--agent", "oracle", tasks=shop.path / "tasks/empty")
    assert done.code == 2
    assert "task.toml" in done.err and "Traceback" not in done.said
    assert not done.records


def test_a_syntax_error_is_placed(shop: Any) -> None:
    shop.task("bad", toml='schema_version = "1.0"\n[agent\ntimeout_sec = 60.0\n')
    done = shop.run("--agent", "oracle", tasks=shop.tasks / "bad")
    assert done.code == 2
    assert "bad/task.toml" in done.err and "2" in done.err and "Traceback" not in done.said


def test_an_unknown_key_is_named_with_the_nearest_known_one(shop: Any) -> None:
    shop.task("typo", toml='schema_version = "1.0"\n[agent]\ntimeout_secs = 60.0\n')
    done = shop.run("--agent", "oracle")
    assert done.code == 0, done.said
    assert "agent.timeout_secs" in done.said and "agent.timeout_sec?" in done.said


BAD_REWARDS = {
    "nan": "echo nan > reward.txt",
    "infinity": "echo Infinity > reward.txt",
    "underscore": "echo 1_0 > reward.txt",
    "word": "echo true > reward.txt",
    "huge": "echo 1e400 > reward.txt",
    "hex": "echo 0x1 > reward.txt",
    "empty": ": > reward.txt",
    "two": "printf '1\\n2\\n' > reward.txt",
    "null": """echo '{"reward": null}' > reward.json""",
    "quoted": """echo '"1"' > reward.json""",
    "boolean": """echo '{"reward": true}' > reward.json""",
    "json-nan": """echo '{"reward": NaN}' > reward.json""",
    "torn": "echo '{' > reward.json",
    "directory": "mkdir reward.txt",
    "sparse": "truncate -s 2G reward.txt",
    "none": "exit 0",
    "none-and-failed": "echo tail of the test; exit 1",
}


def test_a_reward_that_is_no_number_is_a_verifier_error_and_never_a_number(shop: Any) -> None:
    for name, write in BAD_REWARDS.items():
        shop.task(name, test=f"cd /logs/verifier\n{write}")
    shop.task("good")
    done = shop.run("--agent", "oracle", "--stop-after", "0")
    assert done.code == 3, done.said
    records = done.by_case
    assert records.pop("good")["reward"] == 1.0
    assert {name: record.get("failure_code") for name, record in records.items()} == dict.fromkeys(
        BAD_REWARDS, "VERIFIER_ERROR"
    )
    assert not [name for name, record in records.items() if "reward" in record]
    again = shop.command(
        *shop.argv("--agent", "oracle", "--stop-after", "0", "--allow-failures"), run_dir=shop.path / "runs/run"
    )
    assert again.code == 0
    assert len(again.records) == len(BAD_REWARDS) + 1


def test_a_solution_without_run_bit_or_shebang_still_runs(shop: Any) -> None:
    shop.task("no-bit")
    (shop.tasks / "no-bit/solution/solve.sh").chmod(0o644)
    shop.task("no-shebang")
    (shop.tasks / "no-shebang/solution/solve.sh").write_text("echo 42 > /app/answer.txt\n")
    done = shop.run("--agent", "oracle")
    assert {case: record.get("reward") for case, record in done.by_case.items()} == {"no-bit": 1.0, "no-shebang": 1.0}


def test_an_instruction_of_the_dockerfile_that_local_cannot_do_is_named(shop: Any) -> None:
    shop.task("builds", dockerfile="FROM debian:bookworm-slim\nWORKDIR /app\nRUN apt-get install -y cowsay\n")
    shop.task("good")
    done = shop.run("--agent", "oracle")
    assert done.code == 3, done.said
    assert done.by_case["good"]["reward"] == 1.0
    failed = done.by_case["builds"]
    assert failed["failure_code"] == "ENV_FAILED"
    assert "RUN" in failed["failure_message"] and "3" in failed["failure_message"]


def test_a_task_without_a_solution_is_an_env_failure_of_the_oracle(shop: Any) -> None:
    shop.task("unsolved", solve=None)
    done = shop.run("--agent", "oracle")
    assert done.code == 3
    assert done.records[0]["failure_code"] == "ENV_FAILED"
    assert "solve.sh" in done.records[0]["failure_message"]


def test_a_test_that_always_passes_or_never_does_is_seen_by_doing_nothing_and_by_the_solution(shop: Any) -> None:
    shop.task("always", test="echo 1 > /logs/verifier/reward.txt")
    shop.task("never", test="echo 0 > /logs/verifier/reward.txt")
    shop.task("right")
    nothing = shop.run("--agent", "nop", id="nothing")
    assert {case: r["reward"] for case, r in nothing.by_case.items()} == {"always": 1.0, "never": 0.0, "right": 0.0}
    solved = shop.run("--agent", "oracle", "--fail-under", "1", id="solved")
    assert solved.code == 1
    assert {case: r["reward"] for case, r in solved.by_case.items()} == {"always": 1.0, "never": 0.0, "right": 1.0}
    assert "never-oracle-1: reward 0.0" in solved.out
