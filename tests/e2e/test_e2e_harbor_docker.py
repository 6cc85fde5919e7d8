"""Harbor tasks as containers of a real engine: everything that the format can ask for."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("engine")]

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "docs/examples/tasks"


def load_images() -> ModuleType:
    spec = importlib.util.spec_from_file_location("e2e_images", HERE / "images.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


IMAGES = load_images()
docker = IMAGES.docker
WHY = IMAGES.missing()


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755 if path.suffix == ".sh" else 0o644)
    return path


def words(**files: str) -> Mapping[str, str]:
    return files


class Engine:
    """Tasks of an image that exists here alone, run on docker."""

    def __init__(self, shop: Any, image: str) -> None:
        self.shop = shop
        self.image = image

    def task(self, name: str, toml: str, files: Mapping[str, str]) -> Path:
        root = self.shop.tasks / name
        network = "" if "network_mode" in toml else '\n[environment]\nnetwork_mode = "no-network"\n'
        given = {
            "task.toml": toml + network,
            "instruction.md": "Do it.\n",
            "environment/Dockerfile": f"FROM {self.image}\nWORKDIR /app\n",
            "solution/solve.sh": "echo 42 > /app/answer",
            "tests/test.sh": '[ "$(cat /app/answer)" = 42 ] && echo 1 > /logs/verifier/reward.txt',
            **files,
        }
        for path, text in given.items():
            if text:
                shebang = "#!/bin/sh\n" if path.endswith(".sh") else ""
                write(root / path, shebang + text.replace("IMAGE", self.image) + "\n")
        return root

    def run(self, agent: str = "oracle", *more: str, env: Mapping[str, str] | None = None) -> Any:
        run = f"{agent}-{self.shop.mark}"
        done = self.shop.run("--agent", agent, "--provider", "docker", *more, id=run, env=env)
        assert self.left(run) == "", "something was left on the engine"
        return done

    def left(self, run: str) -> str:
        """What the engine still has of a run."""
        label = ("--filter", f"label=agentix.run={run}")
        found = [
            docker("ps", "-aq", *label),
            docker("network", "ls", "-q", *label),
            docker("volume", "ls", "-q", *label),
        ]
        return " ".join(found).strip()


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    if WHY is not None:
        pytest.skip(WHY)
    name = f"agentix-e2e-{uuid.uuid4().hex[:8]}:1"
    IMAGES.import_busybox(name)
    yield name
    IMAGES.remove(name)


@pytest.fixture
def engine(shop: Any, image: str) -> Engine:
    return Engine(shop, image)


def rewards(done: Any) -> dict[str, float | None]:
    assert done.records, done.said
    return {case: record.get("reward") for case, record in done.by_case.items()}


def why(done: Any, case: str) -> str:
    """The whole message of a failure, with its code."""
    return next(done.run_dir.glob(f"trials/{case}-*/attempts/1/failure.json")).read_text()


def test_the_example_tasks_give_what_they_give_on_local(engine: Engine, tmp_path: Path) -> None:
    tasks = engine.shop.tasks
    for source in EXAMPLES.iterdir():
        for path in source.rglob("*"):
            if path.is_file():
                text = path.read_text().replace("debian:bookworm-slim", engine.image).replace("/bin/bash", "/bin/sh")
                write(tasks / source.name / path.relative_to(source), text)
    oracle, nothing = engine.run("oracle"), engine.run("nop")
    assert (oracle.code, nothing.code) == (0, 0), oracle.said + nothing.said
    for agent, done in (("oracle", oracle), ("nop", nothing)):
        local = engine.shop.run("--agent", agent, id=f"{agent}-local", tasks=EXAMPLES)
        assert rewards(done) == rewards(local)
    assert set(rewards(oracle).values()) == {1.0}


def test_what_an_image_says_and_what_the_task_says_of_users_and_directories(engine: Engine) -> None:
    engine.task(
        "users",
        '[agent]\nuser = "worker"\n[verifier]\nuser = "nobody"',
        words(
            **{
                "environment/Dockerfile": "FROM IMAGE\nENV GIVEN=yes\nWORKDIR /srv/here\nRUN chmod 777 .\nUSER 1234",
                "solution/solve.sh": 'echo "$(id -un) $(pwd) $GIVEN" > seen',
                "tests/test.sh": '[ "$(id -un) $(cat seen)" = "nobody worker /srv/here yes" ] '
                "&& echo 1 > /logs/verifier/reward.txt",
            }
        ),
    )
    engine.task(
        "image-user",
        '[environment]\nworkdir = "/elsewhere"\nnetwork_mode = "no-network"',
        words(
            **{
                "environment/Dockerfile": "FROM IMAGE\nRUN mkdir -m 777 /elsewhere\nUSER worker",
                "solution/solve.sh": 'echo "$(id -u) $(pwd)" > seen',
                "tests/test.sh": '[ "$(id -un) $(cat seen)" = "worker 1000 /elsewhere" ] '
                "&& echo 1 > /logs/verifier/reward.txt",
            }
        ),
    )
    done = engine.run()
    assert rewards(done) == {"users": 1.0, "image-user": 1.0}, done.said


def test_an_image_by_name_gets_its_files_and_heredocs_build(engine: Engine) -> None:
    engine.task(
        "named",
        f'[environment]\nworkdir = "/data"\nnetwork_mode = "no-network"\ndocker_image = "{engine.image}"',
        words(
            **{
                "environment/Dockerfile": "",
                "environment/given": "42",
                "solution/solve.sh": "mkdir -p /app; cp given /app/answer",
            }
        ),
    )
    heredoc = "FROM IMAGE\nWORKDIR /app\nCOPY <<EOF /app/given\n42\nEOF\nRUN <<EOF\ncp given copied\nEOF"
    engine.task(
        "heredoc", "", words(**{"environment/Dockerfile": heredoc, "solution/solve.sh": "cp /app/copied /app/answer"})
    )
    done = engine.run()
    assert rewards(done) == {"named": 1.0, "heredoc": 1.0}, done.said


def test_limits_reach_the_container_and_a_healthcheck_is_waited_for(engine: Engine) -> None:
    toml = """
[environment]
network_mode = "no-network"
memory_mb = 96
cpus = 0.5
env = { GIVEN = "${HARBOR_E2E:-default}" }
[environment.healthcheck]
command = "echo x >> /tries; [ $(wc -l < /tries) -ge 3 ]"
interval_sec = 0.05
"""
    cgroups = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null"
    engine.task(
        "limits",
        toml,
        words(
            **{
                "solution/solve.sh": f'echo "$({cgroups}) $GIVEN $(wc -l < /tries)" > /app/seen; cat /app/seen',
                "tests/test.sh": '[ "$(cat /app/seen)" = "100663296 default 3" ] && echo 1 > /logs/verifier/reward.txt',
            }
        ),
    )
    done = engine.run()
    assert rewards(done) == {"limits": 1.0}, done.said


def test_networks_are_those_that_the_task_asks_for(engine: Engine) -> None:
    devices = "ls /sys/class/net | sort | tr '\\n' ' ' > /app/answer; cat /app/answer"
    for mode, expected in (("public", "eth0 lo "), ("no-network", "lo ")):
        engine.task(
            mode,
            f'[environment]\nnetwork_mode = "{mode}"',
            words(
                **{
                    "solution/solve.sh": devices,
                    "tests/test.sh": f'grep -v tunl /app/answer; [ "$(cat /app/answer)" = "{expected.strip()} " ] '
                    "&& echo 1 > /logs/verifier/reward.txt",
                }
            ),
        )
    engine.task("list", '[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["example.org"]', {})
    done = engine.run()
    assert rewards(done) == {"public": 1.0, "no-network": 1.0, "list": None}, done.said
    assert done.by_case["list"]["failure_code"] == "ENV_FAILED", done.by_case["list"]


def test_a_separate_verifier_has_an_image_of_its_own_and_sees_artifacts_only(engine: Engine) -> None:
    toml = """
artifacts = ["/app/answer"]
[verifier]
environment_mode = "separate"
env = { KEY = "v" }
[[verifier.collect]]
command = "echo collected >> /app/answer"
[environment]
network_mode = "no-network"
"""
    engine.task(
        "separate",
        toml,
        words(
            **{
                "solution/solve.sh": "echo 42 > /app/answer; echo secret > /app/other",
                "tests/Dockerfile": "FROM IMAGE\nWORKDIR /grade\nCOPY test.sh /tests/test.sh\nRUN echo own > mark",
                "tests/test.sh": '[ "$(cat mark /app/answer | tr "\\n" " ")" = "own 42 collected " ] '
                '&& [ ! -e /app/other ] && [ "$KEY" = v ] && echo 1 > /logs/verifier/reward.txt',
            }
        ),
    )
    done = engine.run()
    assert rewards(done) == {"separate": 1.0}, done.said
    kept = next(done.run_dir.glob("trials/*/attempts/1/artifacts/app/answer"))
    assert kept.read_text() == "42\ncollected\n"


def test_a_build_that_fails_or_takes_too_long_says_so(engine: Engine) -> None:
    engine.task("broken", "", words(**{"environment/Dockerfile": "FROM IMAGE\nRUN echo why; exit 7"}))
    toml = '[environment]\nbuild_timeout_sec = 2\nnetwork_mode = "no-network"'
    engine.task("slow", toml, words(**{"environment/Dockerfile": "FROM IMAGE\nRUN sleep 60"}))
    engine.task("fine", "", {})
    done = engine.run()
    assert rewards(done) == {"broken": None, "slow": None, "fine": 1.0}, done.said
    assert {done.by_case[name]["failure_code"] for name in ("broken", "slow")} == {"ENV_FAILED"}, done.said
    assert "why" in why(done, "broken")
    assert "build_timeout" in why(done, "slow")
    assert done.code == 3


COMPOSE = (HERE / "composed.yaml").read_text()
WEB = 'FROM IMAGE\nRUN mkdir /www && echo from-web > /www/index.html\nCMD ["httpd", "-f", "-p", "80", "-h", "/www"]'


def composed(engine: Engine, name: str = "composed", text: str = COMPOSE) -> Path:
    return engine.task(
        name,
        "",
        words(
            **{
                "environment/docker-compose.yaml": text,
                "environment/web/Dockerfile": WEB,
                "solution/solve.sh": "{ wget -q -O- http://site/; cat /shared/once; echo $FROM_FILE; "
                "until cat /started; do sleep 0.1; done; } > /app/seen",
                "tests/test.sh": "wget -q -O- http://web/ > /app/again; cat /app/seen; "
                '[ "$(cat /app/seen /app/again | tr "\\n" " ")" = "from-web made a\\$b started from-web " ] '
                "&& echo 1 > /logs/verifier/reward.txt",
            }
        ),
    )


@pytest.fixture
def compose(engine: Engine) -> Engine:
    from agentix.api import EnvFailed
    from agentix.providers.docker.compose_plugin import find_plugin

    try:
        find_plugin()
    except EnvFailed as error:
        pytest.skip(f"{error.message}; {error.hint}")
    return engine


def test_services_run_beside_the_sandbox_for_each_trial_apart(compose: Engine) -> None:
    composed(compose)
    done = compose.run("oracle", "--trials", "2", "--n-concurrent", "2")
    assert [record.get("reward") for record in done.records] == [1.0, 1.0], done.said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('"httpd", "-f"', '"sh", "-c", "echo no such luck; exit 9"'), "no such luck"),
        (("container_name: web", "privileged: true"), "privileged"),
        (('"shared:/shared"]\nvolumes', '"/var/run/docker.sock:/s"]\nvolumes'), "docker.sock"),
        (("networks: [default, back]", "networks: [default, nowhere]"), "nowhere"),
    ],
)
def test_services_that_cannot_be_had_fail_the_environment_and_leave_nothing(
    compose: Engine, change: tuple[str, str], said: str
) -> None:
    text = (COMPOSE + WEB).replace(*change)
    assert text != COMPOSE + WEB
    root = composed(compose, text=text[: text.index("FROM IMAGE\nRUN mkdir")])
    if "httpd" in change[0]:
        write(root / "environment/web/Dockerfile", WEB.replace("IMAGE", compose.image).replace(*change))
    done = compose.run()
    assert rewards(done) == {"composed": None}
    assert done.by_case["composed"]["failure_code"] == "ENV_FAILED", done.said
    assert said in why(done, "composed")


def test_hooks_and_artifacts_of_services_are_theirs(compose: Engine) -> None:
    root = composed(compose)
    toml = """
[environment]
network_mode = "no-network"
[[artifacts]]
source = "/www"
service = "web"
[[artifacts]]
source = "/www/index.html"
destination = "page"
service = "web"
exclude = ["*.log"]
[[artifacts]]
source = "/nowhere"
service = "web"
[[verifier.collect]]
command = "echo more-$(id -un) >> /www/index.html; touch /www/x.log; ln -s /etc/passwd /www/out"
service = "web"
[[verifier.collect]]
command = "echo no; exit 3"
service = "web"
[verifier]
environment_mode = "separate"
"""
    write(root / "task.toml", toml)
    write(root / "tests/Dockerfile", f"FROM {compose.image}\nWORKDIR /grade\nCOPY test.sh /tests/test.sh\n")
    write(
        root / "tests/test.sh",
        '#!/bin/sh\n[ "$(cat /www/index.html | tr "\\n" " ")" = "from-web more-root " ] && [ ! -e /www/out ] '
        "&& echo 1 > /logs/verifier/reward.txt\n",
    )
    done = compose.run()
    assert rewards(done) == {"composed": 1.0}, done.said
    kept = next(done.run_dir.glob("trials/*/attempts/1/artifacts"))
    assert (kept / "page").read_text() == "from-web\nmore-root\n"
    notes = "\n".join(done.by_case["composed"]["notes"])
    assert "'echo no; exit 3' exited with 3: no" in notes
    assert "nothing at /nowhere" in notes
    assert "not copied out of the service web: /www" in notes


def test_the_sandboxs_own_healthcheck_in_the_compose_file_is_waited_for(compose: Engine) -> None:
    check = """    healthcheck:
      test: ["CMD-SHELL", "echo x >> /tries; [ $$(wc -l < /tries) -ge 3 ] && [ $$FROM_FILE = 'a$$b' ]"]
      interval: 0.2s
      retries: 9
"""
    text = COMPOSE.replace("    environment: {FROM", check + "    environment: {FROM")
    root = composed(compose, text=text)
    write(root / "solution/solve.sh", "#!/bin/sh\nwc -l < /tries > /app/seen\n")
    write(root / "tests/test.sh", '#!/bin/sh\n[ "$(cat /app/seen)" -ge 3 ] && echo 1 > /logs/verifier/reward.txt\n')
    sick = composed(compose, "sick", text=text.replace("-ge 3", "-ge 99").replace("retries: 9", "retries: 2"))
    assert sick.is_dir()
    done = compose.run()
    assert rewards(done) == {"composed": 1.0, "sick": None}, done.said
    assert "not healthy" in why(done, "sick")


def test_the_network_changes_between_the_phases_of_one_sandbox(engine: Engine) -> None:
    seen = "ls /sys/class/net | grep -c eth"
    for name, agent, verifier in (("closed", "no-network", "public"), ("open", "public", "no-network")):
        engine.task(
            name,
            f'[agent]\nnetwork_mode = "{agent}"\n[verifier]\nnetwork_mode = "{verifier}"\n',
            words(
                **{
                    "solution/solve.sh": f"{seen} > /app/answer; true",
                    "tests/test.sh": f'[ "$(cat /app/answer) $({seen})" = '
                    f'"{int(agent == "public")} {int(verifier == "public")}" ] && echo 1 > /logs/verifier/reward.txt',
                }
            ),
        )
    engine.task(
        "listed",
        '[agent]\nnetwork_mode = "no-network"\n[verifier]\nnetwork_mode = "allowlist"\nallowed_hosts = ["x.org"]',
        {},
    )
    step = 'name = "{}"\nagent = {{ network_mode = "{}" }}\nverifier = {{ network_mode = "no-network" }}\n'
    files = {}
    for name, count in (("one", 1), ("two", 0)):
        files |= {
            f"steps/{name}/instruction.md": "Look.",
            f"steps/{name}/solution/solve.sh": f"{seen} > /app/answer; true",
            f"steps/{name}/tests/test.sh": f'[ "$(cat /app/answer) $({seen})" = "{count} 0" ] '
            "&& echo 1 > /logs/verifier/reward.txt",
        }
    engine.task(
        "steps",
        "[[steps]]\n" + step.format("one", "public") + "[[steps]]\n" + step.format("two", "no-network"),
        {**files, "tests/test.sh": "", "solution/solve.sh": "", "instruction.md": ""},
    )
    done = engine.run()
    assert rewards(done) == {"closed": 1.0, "open": 1.0, "listed": None, "steps": 1.0}, done.said
    assert "allowlist" in why(done, "listed")


def test_many_trials_of_one_task_build_its_image_once(engine: Engine) -> None:
    dockerfile = f"FROM IMAGE\nWORKDIR /app\nRUN echo {engine.shop.mark} > /m"
    engine.task("shared", "", words(**{"environment/Dockerfile": dockerfile}))
    done = engine.run("oracle", "--trials", "8", "--n-concurrent", "8", "-v")
    assert [record.get("reward") for record in done.records] == [1.0] * 8, done.said
    log = next(done.run_dir.glob("*.log")).read_text()
    assert log.count("INFO agentix.providers.docker: building") == 1, log


def test_without_the_plugin_a_task_with_services_says_so(engine: Engine, tmp_path: Path) -> None:
    composed(engine)
    engine.task("plain", "", {})
    # An interpreter that finds no program beside itself.
    hidden = write(
        tmp_path / "site/sitecustomize.py", "import sysconfig\nsysconfig.get_path = lambda name: '/nowhere'\n"
    )
    places = [place for place in os.environ["PATH"].split(os.pathsep) if not Path(place, "docker-compose").exists()]
    env = {
        "DOCKER_CONFIG": str(tmp_path / "none"),
        "PATH": os.pathsep.join(places),
        "PYTHONPATH": str(hidden.parent),
    }
    if any(Path(folder, "docker-compose").exists() for folder in ("/usr/libexec/docker/cli-plugins",)):
        pytest.skip("the plugin is among the system's packages here, where it is always found")
    done = engine.run(env=env)
    assert rewards(done) == {"composed": None, "plain": 1.0}, done.said
    assert "compose plugin" in why(done, "composed")


def test_an_agent_reaches_a_tasks_mcp_server_by_what_it_is_told(compose: Engine, tmp_path: Path) -> None:

    root = composed(compose)
    servers = '[[environment.mcp_servers]]\nname = "site"\ntransport = "sse"\nurl = "http://site/"\n'
    write(root / "task.toml", f'[environment]\nnetwork_mode = "no-network"\n{servers}')
    write(root / "tests/test.sh", "#!/bin/sh\n[ -s /app/told ] && cp /app/told /logs/verifier/reward.json\n")
    script = write(
        tmp_path / "agent.sh",
        '#!/bin/sh\nurl=$(echo "$AGENTIX_MCP_SERVERS" | sed \'s/.*"url": "\\([^"]*\\)".*/\\1/\')\n'
        'wget -q -O- "$url" | grep -q from-web && echo \'{"reward": 1}\' > /app/told\n',
    )
    done = compose.run("command", "--agent-opt", f"script={script}")
    assert rewards(done) == {"composed": 1.0}, done.said
    assert json.loads((done.run_dir / "results.jsonl").read_text())["reward"] == 1.0


def test_services_whose_owner_was_killed_are_found_and_removed(compose: Engine, tmp_path: Path) -> None:
    composed(compose)
    script = write(tmp_path / "agent.sh", "#!/bin/sh\nsleep 300\n")
    run = f"killed-{compose.shop.mark}"
    running = compose.shop.start(
        "--agent", "command", "--agent-opt", f"script={script}", "--provider", "docker", id=run
    )
    try:
        for _ in range(600):
            if len(compose.left(run).split()) >= 3 or running.poll() is not None:
                break
            time.sleep(0.1)
        assert running.poll() is None, running.communicate()[0]
    finally:
        running.kill()
        running.communicate()
    swept = compose.shop.command(Path(sys.executable).parent / "agentix", "gc", "--provider", "docker")
    assert swept.code == 0, swept.said
    for _ in range(600):
        if not compose.left(run):
            break
        # Another run that starts now sweeps too, and has taken some of it on.
        time.sleep(0.1)
    assert compose.left(run) == ""
