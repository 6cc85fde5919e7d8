"""Plays a task's reference solution."""

from __future__ import annotations

from agentix.api import AgentResult, EnvFailed, Sandbox
from agentix.plugins.datasets.harbor.places import AGENT_LOGS, SOLUTION, put_scripts, refuse_shared_files
from agentix.plugins.datasets.harbor.task import TASK_FILE, Stage
from agentix.plugins.datasets.harbor.template import resolve_env


async def play_solution(sandbox: Sandbox, stage: Stage) -> AgentResult:
    """Upload `solution/` to `/solution` and run its `solve.sh` as the agent's user; output goes to the agent's logs.

    Raises:
        EnvFailed: The stage has no solution, or a variable that it needs is not set.
    """
    refuse_shared_files(sandbox)
    directory = stage.solution
    if directory is None:
        raise EnvFailed(f"{stage.directory}: there is no solution/solve.sh to play", detail="no_solution")
    where = f"{stage.task.directory / TASK_FILE}: solution.env"
    env = resolve_env(stage.task.file.solution.env, where=where)
    notes = await put_scripts(sandbox, [directory], SOLUTION, script=directory / "solve.sh")
    result = await sandbox.exec(
        f"(exec {SOLUTION}/solve.sh) > {AGENT_LOGS}/oracle.txt 2>&1",
        user=stage.agent_user,
        env={"DEBIAN_FRONTEND": "noninteractive", **env},
    )
    return AgentResult(exit_code=result.exit_code, info={"notes": list(notes)} if notes else {})
