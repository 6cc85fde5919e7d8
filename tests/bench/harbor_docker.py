"""A trivial Harbor task with oracle on docker, its image built, against the same work by hand with the docker CLI.

By hand means: run a container that pauses, make the log directories, copy the solution in and run it, copy the tests in
and run them, read the reward, remove the container. Harbor's own CLI needs 14 to 16 s for such a task.
"""

from __future__ import annotations

import logging
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio
from table import Row, show

from agentix.api import run_rollouts
from agentix.plugins.agents.baseline import OracleAgent
from agentix.plugins.datasets.harbor import HarborConfig, HarborDataset
from agentix.providers.docker import DockerProvider

ROUNDS = 9
FILES = {
    "task.toml": '[environment]\nnetwork_mode = "no-network"\n',
    "instruction.md": "Write hello into /app/greeting.\n",
    "environment/Dockerfile": "FROM scratch\nCOPY busybox /bin/busybox\n"
    'RUN ["/bin/busybox", "--install", "-s", "/bin"]\nENV PATH=/bin\nWORKDIR /app\n',
    "solution/solve.sh": "#!/bin/sh\necho hello > /app/greeting\n",
    "tests/test.sh": "#!/bin/sh\ngrep -qx hello /app/greeting && echo 1 > /logs/verifier/reward.txt\n",
}


def docker(*arguments: str) -> str:
    """What the docker command line says."""
    return subprocess.run(["docker", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def put(container: str, task: Path, name: str) -> None:
    """Copy a directory in; `docker cp` into a container that runs is not dependable on a busy engine of version 20."""
    archive = subprocess.run(["tar", "-c", "-C", str(task), name], check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["docker", "exec", "-i", container, "tar", "-x", "-C", "/"], check=True, input=archive)


def by_hand(task: Path, image: str) -> None:
    """What a patient person types."""
    container = docker("run", "-d", "--network", "none", image, "sleep", "600")
    try:
        docker("exec", container, "mkdir", "-p", "/logs/agent", "/logs/verifier", "/logs/artifacts")
        put(container, task, "solution")
        docker("exec", container, "sh", "/solution/solve.sh")
        put(container, task, "tests")
        docker("exec", container, "sh", "/tests/test.sh")
        assert docker("exec", container, "cat", "/logs/verifier/reward.txt") == "1"
    finally:
        docker("rm", "-f", container)


def rows() -> list[Row]:
    """The rows of this benchmark; none where there is no engine."""
    busybox = shutil.which("busybox")
    if shutil.which("docker") is None or busybox is None or b"ld-linux" in Path(busybox).read_bytes()[:4096]:
        print("harbor_docker: needs a docker command and a static busybox", file=sys.stderr)
        return []
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="agentix-bench-") as directory:
        task = Path(directory) / "greeting"
        for name, text in FILES.items():
            (task / name).parent.mkdir(parents=True, exist_ok=True)
            (task / name).write_text(text)
        shutil.copy(busybox, task / "environment" / "busybox")
        return anyio.run(_rows, task)


async def _rows(task: Path) -> list[Row]:
    image = "agentix-bench-by-hand:1"
    docker("build", "-q", "-t", image, str(task / "environment"))
    dataset = HarborDataset(HarborConfig(path=(str(task),)))
    ours, theirs, teardowns = [], [], []
    try:
        async with DockerProvider() as provider:
            for turn in range(ROUNDS + 1):
                began = time.perf_counter()
                (rollout,) = await run_rollouts(dataset=dataset, agent=OracleAgent(), provider=provider)
                spent = time.perf_counter() - began
                assert rollout.reward == 1.0, rollout
                built = began + spent
                by_hand(task, image)
                if turn:
                    ours.append(spent)
                    theirs.append(time.perf_counter() - built)
                    teardowns.append(rollout.phases["teardown"])
    finally:
        docker("rmi", "-f", image)
    return [
        Row(
            name="trivial Harbor task with oracle on docker, median",
            ours=statistics.median(ours),
            unit="s",
            target=1.1,
            better="less",
            bare=statistics.median(theirs),
            ratio_target=1.0,
        ),
        Row(
            name="its teardown, median",
            ours=statistics.median(teardowns),
            unit="s",
            target=0.3,
            better="less",
        ),
    ]


if __name__ == "__main__":
    show(rows())
