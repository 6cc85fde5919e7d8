"""Every failure code on purpose, natively and by a command, and what of them stands in the denominator."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentix.api import Summary, load_run

PARTS = '''
import anyio

from agentix.api import (
    AgentResult, EnvFailed, HostError, ImageBuild, RolloutContext, Sandbox, SandboxConfig, Usage, VerifierError
)

NAMES = NAMES_HERE


class Everything:
    """Instances that are called after what happens to them."""

    def instances(self):
        for name in NAMES:
            yield {"instance_id": name, "instruction": "do it"}

    def image(self, instance):
        return ""

    async def setup(self, sandbox, instance):
        if instance["instance_id"] == "setup-error":
            raise RuntimeError("the archive is damaged")
        if instance["instance_id"] == "registry-gone":
            raise HostError("the registry hung up")
        return instance["instance_id"] != "unready"

    async def score(self, sandbox, instance, patch):
        name = instance["instance_id"]
        if name == "scorer-raises":
            raise ZeroDivisionError("no tests")
        if name == "scorer-says-so":
            raise VerifierError("the tests gave no reward")
        return {"reward": float("nan") if name == "not-a-number" else 1.0}


dataset = Everything


async def agent(sandbox, instance, *, model, context):
    name = instance["instance_id"]
    if name == "idle":
        return AgentResult()
    if name == "late":
        await anyio.sleep(600)
    if name == "raises":
        raise RuntimeError("the agent broke")
    if name == "fails":
        return AgentResult(exit_code=3)
    if name == "spends":
        for _ in range(10):
            context.spend(Usage(turns=1))
    if name == "no-install":
        raise EnvFailed("the agent could not be installed", detail="agent_setup")
    await sandbox.exec(["sh", "-c", "echo done > done.txt"])
    with open("HERE/worked.txt", "a") as file:
        file.write(name + "\\n")
    if name == "measured-late":
        await anyio.sleep(600)
    return AgentResult()
'''

WORKING = {"solved", "measured-late", "scorer-raises", "scorer-says-so", "not-a-number"}
MEASURED = {"solved": 1.0, "idle": 0.0, "measured-late": 1.0}
FAILED = {
    "late": "AGENT_TIMEOUT",
    "raises": "AGENT_FAILED",
    "fails": "AGENT_FAILED",
    "spends": "AGENT_LIMIT",
    "unready": "ENV_FAILED",
    "setup-error": "ENV_FAILED",
    "no-install": "ENV_FAILED",
    "registry-gone": "HOST_ERROR",
    "scorer-raises": "VERIFIER_ERROR",
    "scorer-says-so": "VERIFIER_ERROR",
    "not-a-number": "VERIFIER_ERROR",
}
FILE = """
---
kind: Commands
check: {run: ["sh", "-c", "case $CASE_LABEL in *solved*) echo broken >&2; exit 1;; esac"]}
script: {script: "exec python3 HERE/script.py"}
---
kind: Experiment
name: every
cases: [{source: dataset, dataset: "HERE/parts.py:dataset"}]
matrix: {agents: [{name: "HERE/parts.py:agent", id: mine}]}
concurrency: 4
limits: {timeout: TIMEOUT, max_turns: 3}
pipeline: {per_trial: [{uses: auto}, {uses: check}]}
"""


def write(lab: Any, names: Any, *, timeout: str = "4s") -> Any:
    (lab.root / "parts.py").write_text(
        PARTS.replace("NAMES_HERE", repr(list(names))).replace("HERE/worked", f"{lab.root}/worked")
    )
    return lab.file(FILE.replace("HERE", str(lab.root)).replace("TIMEOUT", timeout))


def expect(lab: Any, expected: dict[str, Any], *, run_id: str = "r") -> None:
    """The record of every trial, and that only the agent's own failures count as tries that earned nothing."""
    records = list(load_run(lab.path(run_id)))
    found = {r.case: r.reward if r.failure_code is None else r.failure_code.value for r in records}
    assert found == expected
    rewards = [value for value in expected.values() if isinstance(value, float)]
    codes = [value for value in expected.values() if isinstance(value, str)]
    agents = [code for code in codes if code.startswith("AGENT_")]
    summary = Summary.of(records, planned=len(expected))
    assert (summary.measured, summary.agent_failures) == (len(rewards), len(agents))
    assert summary.denominator == len(rewards) + len(agents)
    assert summary.infra_failures == len(codes) - len(agents)
    assert summary.mean_reward == pytest.approx(sum(rewards) / (len(rewards) + len(agents)))
    assert summary.mean_reward_infra_zero == pytest.approx(sum(rewards) / len(expected))
    assert summary.coverage == pytest.approx(len(rewards) / len(expected))
    assert {str(code): count for code, count in summary.by_code.items()} == {code: codes.count(code) for code in codes}
    status = lab.cli("status", run_id, "--json")
    assert status.returncode == 0, status.stderr
    told = json.loads(status.stdout)
    (row,) = told["numbers"]["rows"]
    assert (row["denominator"], row["mean_reward"]) == (summary.denominator, summary.mean_reward), told
    # What went wrong after a measurement stands beside it.
    (solved,) = (r for r in records if "solved" in r.case)
    assert solved.reward == 1.0
    assert [(f.step, f.code) for f in solved.step_failures] == [("check", "STEP_FAILED")]


@pytest.mark.real
@pytest.mark.parametrize("provider", ["inline", "local"])
def test_every_code_natively(lab, provider: str) -> None:
    # On a machine that is busy, agents that work take longer than those that are stopped shall take.
    for timeout in ("4s", "16s", "64s"):
        (lab.root / "worked.txt").write_text("")
        file = write(lab, [*MEASURED, *FAILED], timeout=timeout)
        assert lab.run(file, timeout, executor="rollout", provider=provider) == 1, "a step failed"
        if set((lab.root / "worked.txt").read_text().split()) == WORKING:
            break
    expect(lab, {**MEASURED, **FAILED}, run_id=timeout)
    record = next(r for r in load_run(lab.path(timeout)) if r.case == "measured-late")
    assert (record.ended, record.failure_code) == ("timeout", None)


SCRIPT = """
import os, signal, sys, time
from pathlib import Path

out, name = Path(os.environ["OUT_DIR"]), os.environ["CASE_NAME"]
if name in ("solved", "half"):
    (out / "reward.txt").write_text("1" if name == "solved" else "0.5")
elif name == "silent-death":
    os.kill(os.getpid(), signal.SIGKILL)
elif name == "silent-error":
    sys.exit(3)
elif name == "nothing":
    sys.exit(0)
elif name == "nan":
    (out / "reward.txt").write_text("nan")
elif name == "unknown":
    (out / "failure.txt").write_text("OUT_OF_LUCK\\nnobody knows this code\\n")
elif name == "later":
    sys.exit(75)
else:
    (out / "failure.txt").write_text(name.upper().replace("-", "_") + "\\non purpose\\n")
"""
ANSWERS = {
    "solved": 1.0,
    "half": 0.5,
    "agent-timeout": "AGENT_TIMEOUT",
    "agent-failed": "AGENT_FAILED",
    "agent-limit": "AGENT_LIMIT",
    "env-failed": "ENV_FAILED",
    "host-error": "HOST_ERROR",
    "verifier-error": "VERIFIER_ERROR",
    "silent-death": "ENV_FAILED",
    "silent-error": "ENV_FAILED",
    "nothing": "VERIFIER_ERROR",
    "nan": "VERIFIER_ERROR",
    "unknown": "HOST_ERROR",
    "later": "HOST_ERROR",
    "cancelled": "HOST_ERROR",
    "step-failed": "HOST_ERROR",
}


def test_every_code_by_a_command(lab) -> None:
    (lab.root / "script.py").write_text(SCRIPT)
    assert lab.run(write(lab, ANSWERS), executor="script") == 1, "a step failed"
    expect(lab, ANSWERS)


def test_infrastructure_failures_alone_end_a_run_with_3_and_an_agents_with_0(lab) -> None:
    (lab.root / "script.py").write_text(SCRIPT)
    assert lab.run(write(lab, ["half", "agent-failed"]), executor="script") == 0
    assert lab.run(write(lab, ["half", "env-failed"]), executor="script", run_id="s") == 3
