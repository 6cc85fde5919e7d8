"""Records of a run, with all that a dataset may have to hold."""

from __future__ import annotations

from agentix.api import FailureCode, Record
from agentix.records import UsageRecord

HOSTILE = "=cmd|' /C calc'!A0 <script>alert(1)</script> [x](javascript:alert(1)) **b** | d\n--- \u202egnp.exe: {a: &b}"
CANARY = "hunter2-canary-0123456789"


def trial(number: int, reward: float | None, *, agent="claude", case="cases/a", llm_spec="opus", **values) -> Record:
    defaults = {"at": "2026-01-31T12:00:00.000Z", "seconds": 2, "redaction": {"known_value": 2, "ip": 1}}
    given = {"agent": agent, "case": case, "llm_spec": llm_spec, "index": number, **(defaults | values)}
    return Record(trial_id=f"t{number}", reward=reward, **given)


RECORDS = [
    trial(
        2,
        0.5,
        metrics={"tests": 3.0, "lines": 7.0},
        usage=UsageRecord(input=100, output=20, cost_usd=0.5, turns=4),
        agent_version="2.1",
    ),
    trial(1, 1.0, notes=("said twice",)),
    trial(3, None, failure_code=FailureCode.AGENT_TIMEOUT, ended="timeout"),
    trial(4, None, failure_code=FailureCode.HOST_ERROR, failure_message="the disk is full"),
    trial(5, 1, agent="oracle", llm_spec=None, case=HOSTILE, image_digest="sha256:ab"),
]
DROPPED = trial(6, 0.0)
