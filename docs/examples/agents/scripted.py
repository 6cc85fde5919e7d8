"""An agent in Python, without a model: host code that works in the sandbox through its commands and files.

agentix-run --dataset harbor --dataset-opt path=docs/examples/tasks \
    --agent python --agent-opt path=docs/examples/agents/scripted.py
"""

from __future__ import annotations

from typing import Any

from agentix.api import AgentFailed, AgentResult, RolloutContext, Sandbox, Usage


class ScriptedAgent:
    """Knows two kinds of request and says so when it is given another one."""

    deterministic = True
    version = "1"

    async def solve(
        self, sandbox: Sandbox, instance: dict[str, Any], *, model: str | None, context: RolloutContext
    ) -> AgentResult:
        """Solve the task that `context.instruction` words."""
        request = context.instruction
        if "greeting.txt" in request:
            await sandbox.write_file("/app/greeting.txt", b"Hello, agentix!\n")
        elif "server.log" in request:
            log = (await sandbox.read_file("/app/server.log")).decode()
            times = [line.split()[0] for line in log.splitlines() if line.split()[1] == "ERROR"]
            summary = f"errors: {len(times)}\nlast: {times[-1]}\n"
            await sandbox.write_file("/app/summary.txt", summary.encode())
        else:
            raise AgentFailed("no idea")
        context.spend(Usage(turns=1, tool_calls=1))
        return AgentResult(exit_code=0)


agent = ScriptedAgent()
