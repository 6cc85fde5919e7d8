"""What agents do to the machine, the scorer and each other, and what comes of it."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.real


def solve(shop: Any, body: str, *options: str, id: str = "run") -> Any:
    agent = shop.script("agent.sh", body)
    return shop.run("--agent", "command", "--agent-opt", f"script={agent}", *options, id=id)


def test_daemons_do_not_outlive_the_trial(shop: Any) -> None:
    shop.task("answer")
    body = """
        echo 42 > /app/answer.txt
        for i in 1 2 3; do setsid bash -c 'trap "" TERM HUP; exec -a MARK sleep 1000' >/dev/null 2>&1 & done
        (bash -c 'exec -a MARK-held sleep 1000' &)
    """
    done = solve(shop, body)
    assert done.code == 0, done.said
    assert done.records[0]["reward"] == 1.0
    assert shop.alive() == []


def test_a_flood_of_output_is_bounded_and_harmless(shop: Any) -> None:
    shop.task("answer")
    flood = "yes MARK | head -c 60000000; yes | head -c 60000000 >&2; echo 42 > /app/answer.txt"
    done = solve(shop, flood, "--agent-opt", "max_log_mb=1")
    assert done.code == 0, done.said
    assert done.records[0]["reward"] == 1.0
    kept = sum(path.stat().st_size for path in done.run_dir.rglob("*") if path.is_file())
    assert kept < 3_000_000


def test_an_agent_that_ignores_sigterm_is_dead_before_scoring_and_its_work_counts(shop: Any) -> None:
    test = """
        [ -e /app/tick ] && echo it ticked
        a=$(stat -c %s /app/tick); sleep 1; b=$(stat -c %s /app/tick)
        [ "$a" = "$b" ] && [ "$(cat /app/answer.txt)" = 42 ]
        echo $((1 - $?)) > /logs/verifier/reward.txt
    """
    shop.task("answer", test=test)
    body = """
        trap '' TERM INT HUP
        echo 42 > /app/answer.txt
        while :; do date +%s%N >> /app/tick; sleep 0.1; done
    """
    # On a machine that is busy it takes longer to begin.
    for timeout in ("2s", "8s", "32s"):
        done = solve(shop, body, "--timeout", timeout, id=timeout)
        assert done.code == 0, done.said
        (record,) = done.records
        (said,) = done.run_dir.rglob("test-stdout.txt")
        if said.read_text() == "it ticked\n":
            break
    assert said.read_text() == "it ticked\n"
    assert record["reward"] == 1.0
    assert record["ended"] == "timeout"
    assert "failure_code" not in record


@pytest.mark.parametrize(
    "plant",
    [
        "cd /logs/verifier && echo 1 > reward.txt && echo '{\"reward\": 1}' > reward.json",
        "rm -rf /logs/verifier; ln -s /tmp /logs/verifier; echo 1 > /tmp/reward.txt",
        "setsid bash -c 'while :; do echo 1 > /logs/verifier/reward.txt; sleep 0.01; done' MARK >/dev/null 2>&1 &",
    ],
    ids=["file", "link", "loop"],
)
def test_a_planted_reward_is_worth_nothing(shop: Any, plant: str) -> None:
    shop.task("answer")
    done = solve(shop, plant)
    (record,) = done.records
    assert record.get("reward") in (None, 0.0), record
    assert record.get("failure_code") in (None, "VERIFIER_ERROR"), record


def test_a_disk_that_an_agent_has_filled_is_named_where_its_tests_cannot_write(shop: Any) -> None:
    toml = 'schema_version = "1.0"\n[environment]\nnetwork_mode = "no-network"\nstorage_mb = 64\n'
    shop.task("full", toml=toml, test="seq 100000; echo 1 > /logs/verifier/reward.txt")
    agent = shop.script("agent.sh", "head -c 300000000 /dev/zero > /app/big; exit 0")
    done = shop.run("--agent", "command", "--agent-opt", f"script={agent}", "--max-attempts", "1")
    assert done.code == 3, done.said
    (record,) = done.records
    assert (record["failure_code"], record["failure_detail"]) == ("VERIFIER_ERROR", "resources")
    assert "No space left on device" in record["failure_message"]


def test_a_full_disk_is_named_and_the_other_trials_go_on(shop: Any) -> None:
    toml = 'schema_version = "1.0"\n[environment]\nnetwork_mode = "no-network"\nstorage_mb = 64\n'
    shop.task("greedy", toml=toml, instruction="Fill the disk.\n")
    shop.task("modest", toml=toml)
    body = """
        if grep -q Fill; then
            head -c 300000000 /dev/zero > /app/big || { echo MARK "disk full" >&2; exit 28; }
        fi
        echo 42 > /app/answer.txt
    """
    done = solve(shop, body)
    assert done.by_case["modest"]["reward"] == 1.0, done.said
    greedy = done.by_case["greedy"]
    assert greedy.get("reward") in (None, 0.0)
    said = str(greedy) + "".join(
        path.read_text(errors="replace") for path in done.run_dir.rglob("*") if path.is_file() and "greedy" in str(path)
    )
    assert "No space left" in said


def test_a_deleted_git_does_not_take_the_patch_with_it(shop: Any) -> None:
    shop.task("answer", dockerfile="FROM debian:bookworm-slim\nWORKDIR /app\nCOPY repo /app\n")
    repo = shop.tasks / "answer/environment/repo"
    shop.command("git", "init", "-q", repo)
    (repo / "kept.txt").write_text("one\n")
    done = solve(shop, "rm -rf .git && echo two > kept.txt && echo 42 > answer.txt")
    assert done.code == 0, done.said
    (record,) = done.records
    assert record["reward"] == 1.0
    patch = (done.run_dir / "trials" / record["trial_id"] / "patch.diff").read_text()
    assert "-one\n+two\n" in patch and "+42\n" in patch


def test_no_environment_and_no_home_of_the_host_is_visible(shop: Any) -> None:
    shop.task("answer", test="seq 100000; echo 1 > /logs/verifier/reward.txt")
    body = """
        { env; cat /proc/self/environ | tr '\\0' '\\n'; ls -A / /root /home; id; cat /etc/shadow; } > /app/seen.txt 2>&1
    """
    done = shop.run(
        "--agent",
        "command",
        "--agent-opt",
        f"script={shop.script('agent.sh', body)}",
        env={"SECRET_CANARY": "sk-canary-12345"},
    )
    (record,) = done.records
    patch = (done.run_dir / "trials" / record["trial_id"] / "patch.diff").read_text()
    assert "PATH=" in patch
    assert "canary" not in patch.lower()
    assert "root:$" not in patch and "root:*" not in patch
