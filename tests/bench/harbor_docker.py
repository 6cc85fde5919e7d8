"""A trivial Harbor task with oracle on docker, its image built, against the docker CLI by hand and Harbor's own CLI.

By hand means: run a container that pauses, make the log directories, copy the solution in and run it, copy the tests in
and run them, read the reward, remove the container.

Harbor's CLI is looked for as `$HARBOR_CLI`, on the PATH, and where `.ci/harbor` installs it; it needs an environment of
its own with Python 3.12. Where it is not there, the row says so.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
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
HARBOR_ROUNDS = 2
FILES = {
    "task.toml": '[environment]\nnetwork_mode = "no-network"\n',
    "instruction.md": "Write hello into /app/greeting.\n",
    "environment/Dockerfile": "FROM scratch\nCOPY root /\nENV PATH=/bin\nWORKDIR /app\n",
    "environment/root/etc/passwd": "root:x:0:0:root:/:/bin/sh\n",
    "environment/root/bin/bash": '#!/bin/sh\nexec /bin/sh "$@"\n',
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


def find_harbor() -> str | None:
    """Harbor's own CLI; of those that `.ci/harbor` has kept whole, the newest."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    kept = sorted((cache / "agentix-ci").glob("harbor-*/.complete"), key=lambda path: path.stat().st_mtime)
    own = str(kept[-1].parent / "bin" / "harbor") if kept else None
    return os.environ.get("HARBOR_CLI") or shutil.which("harbor") or own


def harbors_own(program: str, task: Path) -> float:
    """Seconds that Harbor's own CLI takes for the task."""
    out, job = task.parent / "harbor", f"bench-{secrets.token_hex(4)}"
    words = f"-a oracle -e docker -k 1 -n 1 --max-retries 0 -q -y --job-name {job}".split()
    places = (Path(program).resolve(), Path(sys.executable))
    beside = next((path for place in places if (path := place.with_name("docker-compose")).is_file()), None)
    config = task.parent / "docker"
    if beside is not None and not config.exists():
        # The docker command finds its plugin nowhere else.
        (config / "cli-plugins").mkdir(parents=True)
        shutil.copy(beside, config / "cli-plugins" / "docker-compose")
    own = {"DOCKER_CONFIG": str(config)} if config.exists() else {}
    # It cannot cut every engine's containers off.
    if not (open_task := task.parent / "open").exists():
        shutil.copytree(task, open_task, symlinks=True)
        (open_task / "task.toml").write_text('[environment]\nnetwork_mode = "public"\n')
    began = time.perf_counter()
    done = subprocess.run(
        [program, "run", "-p", str(open_task), "-o", str(out), *words],
        env={**os.environ, "HARBOR_TELEMETRY": "off", **own},
        check=False,
        capture_output=True,
        text=True,
    )
    spent = time.perf_counter() - began
    results = [json.loads(path.read_text()) for path in (out / job).glob("*/result.json")]
    rewards = [(result.get("verifier_result") or {}).get("rewards") for result in results]
    if rewards != [{"reward": 1.0}]:
        said = [result.get("exception_info") for result in results] or done.stdout[-2000:]
        raise SystemExit(f"Harbor's own CLI did not run the task: {rewards} {said}")
    return spent


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
        programs = task / "environment" / "root" / "bin"
        (programs / "bash").chmod(0o755)
        shutil.copy(busybox, programs / "busybox")
        for name in subprocess.run([busybox, "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout.split():
            if not (programs / name).exists():
                (programs / name).symlink_to("busybox")
        return anyio.run(_rows, task)


async def _rows(task: Path) -> list[Row]:
    image = "agentix-bench-by-hand:1"
    docker("build", "-q", "-t", image, str(task / "environment"))
    dataset = HarborDataset(HarborConfig(path=(str(task),)))
    ours, theirs, teardowns, cpu = [], [], [], []
    harbor = find_harbor()
    try:
        async with DockerProvider() as provider:
            for turn in range(ROUNDS + 1):
                began, used = time.perf_counter(), time.process_time()
                (rollout,) = await run_rollouts(dataset=dataset, agent=OracleAgent(), provider=provider)
                spent, cpu_used = time.perf_counter() - began, time.process_time() - used
                assert rollout.reward == 1.0, rollout
                built = began + spent
                by_hand(task, image)
                if turn:
                    ours.append(spent)
                    cpu.append(cpu_used)
                    theirs.append(time.perf_counter() - built)
                    teardowns.append(rollout.phases["teardown"])
            separate = await _separate(task, provider)
        harbors = [] if harbor is None else [harbors_own(harbor, task) for _ in range(HARBOR_ROUNDS)]
    finally:
        docker("rmi", "-f", image)
    missing = "" if harbors else " (not installed here)"
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
            name=f"the same against Harbor's own CLI{missing}",
            ours=statistics.median(ours),
            unit="s",
            better="less",
            bare=min(harbors, default=None),
        ),
        Row(
            name="it with a separate verifier, whose sandbox is ready, against one that is not",
            ours=separate[1],
            unit="s",
            better="less",
            bare=separate[0],
        ),
        Row(name="CPU of this process for one trial", ours=min(cpu) * 1000, unit="ms", target=60, better="less"),
        Row(
            name="its teardown, median",
            ours=statistics.median(teardowns),
            unit="s",
            target=0.3,
            better="less",
        ),
    ]


async def _separate(task: Path, provider: DockerProvider) -> tuple[float, float]:
    """Seconds for the task with a verifier of its own, without and with its sandbox made ready ahead."""
    apart = task.parent / "apart"
    shutil.copytree(task, apart, symlinks=True)
    (apart / "task.toml").write_text(
        f'artifacts = ["/app/greeting"]\n[verifier]\nenvironment_mode = "separate"\n{FILES["task.toml"]}'
    )
    # An agent that needs no time at all would leave none for anything else.
    (apart / "solution" / "solve.sh").write_text(FILES["solution/solve.sh"] + "sleep 1\n")
    dataset = HarborDataset(HarborConfig(path=(str(apart),)))
    spent: tuple[list[float], list[float]] = [], []
    for _ in range(ROUNDS // 2):
        for ahead in (0, 1):
            began = time.perf_counter()
            (rollout,) = await run_rollouts(
                dataset=dataset, agent=OracleAgent(), provider=provider, prepare_ahead=ahead
            )
            assert rollout.reward == 1.0, rollout
            spent[ahead].append(time.perf_counter() - began)
    return statistics.median(spent[0]), statistics.median(spent[1])


if __name__ == "__main__":
    show(rows())
