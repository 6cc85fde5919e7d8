from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentix.api import EnvFailed, ImageBuild
from agentix.plugins.datasets.harbor import HarborConfig, HarborDataset
from agentix.plugins.datasets.harbor.artifacts import is_excluded
from agentix.plugins.datasets.harbor.combine import StepResult, combine, missed_minimum
from agentix.plugins.datasets.harbor.sandbox_config import verifier_config
from agentix.plugins.datasets.harbor.schema import Step
from agentix.plugins.datasets.harbor.task import Task, without_canary

MakeTask = Callable[..., Task]


@pytest.fixture
def task(tmp_path: Path) -> MakeTask:
    def make(toml: str = "", *files: str) -> Task:
        directory = tmp_path / "task"
        wanted = {"instruction.md": "Do it.", "tests/test.sh": "#!/bin/sh", "environment/Dockerfile": "FROM scratch"}
        for file in files:
            if file.startswith("-"):
                del wanted[file[1:]]
            else:
                wanted[file] = ""
        for file, text in wanted.items():
            (directory / file).parent.mkdir(parents=True, exist_ok=True)
            (directory / file).write_text(text)
        (directory / "task.toml").write_text(toml)
        return Task.load(directory)

    return make


def configured(task: Task, **options: object):  # type: ignore[no-untyped-def]
    dataset = HarborDataset(HarborConfig.model_validate({"path": str(task.directory), **options}))
    (instance,) = dataset.instances()
    return dataset.sandbox_config(instance)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("Do it.", "Do it."),
        ("<!-- harbor-canary GUID 1 -->\n\nDo it.\n", "Do it.\n"),
        ("# CANARY 1\n# more canary\n\n\nDo it.", "Do it."),
        ("# Title\nDo it.", "# Title\nDo it."),
        ("Do it.\n<!-- canary -->", "Do it.\n<!-- canary -->"),
        ("", ""),
    ],
)
def test_canary_lines_at_the_head_are_removed(text: str, rest: str) -> None:
    assert without_canary(text) == rest


def test_the_sandbox_is_what_the_environment_says(task: MakeTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARBOR_TEST_TOKEN", "t")
    config = configured(
        task(
            """
            [environment]
            cpus = 2
            memory_mb = 512
            storage_mb = 100
            gpus = 1
            workdir = "/w"
            build_timeout_sec = 30
            network_mode = "allowlist"
            allowed_hosts = ["example.org"]
            env = { A = "${HARBOR_TEST_TOKEN}", B = "${HARBOR_TEST_UNSET:-x}" }
            """
        )
    )
    assert isinstance(config.image, ImageBuild)
    assert config.image.dockerfile_path.is_file()
    assert (config.cpus, config.memory_mb, config.storage_mb, config.gpus) == (2, 512, 100, 1)
    assert (config.workdir, config.build_timeout_s) == ("/w", 30)
    assert (config.network, config.allowed_hosts) == ("allowlist", ("example.org",))
    assert config.env == {"A": "t", "B": "x"}


def test_the_network_is_public_by_default(task: MakeTask) -> None:
    assert configured(task()).network == "public"


def test_an_image_that_is_named_wins_over_a_dockerfile_unless_told_otherwise(task: MakeTask) -> None:
    one = task('[environment]\ndocker_image = "named:1"')
    assert configured(one).image == "named:1"
    assert isinstance(configured(one, force_build=True).image, ImageBuild)


def test_limits_are_the_tasks_own(task: MakeTask) -> None:
    one = task("[agent]\ntimeout_sec = 5\n[verifier]\ntimeout_sec = 7\n[environment]\nbuild_timeout_sec = 9\n")
    dataset = HarborDataset(HarborConfig(path=(str(one.directory),)))
    (instance,) = dataset.instances()
    limits = dataset.limits(instance)
    assert (limits.agent_s, limits.score_s, limits.create_s) == (5, 7, 9)
    assert "collect_s" not in limits.model_fields_set


def test_no_agent_timeout_is_no_limit(task: MakeTask) -> None:
    dataset = HarborDataset(HarborConfig(path=(str(task().directory),)))
    (instance,) = dataset.instances()
    assert dataset.limits(instance).agent_s is None
    assert "agent_s" in dataset.limits(instance).model_fields_set


@pytest.mark.parametrize(
    ("toml", "files", "key"),
    [
        ('[environment]\nos = "windows"', (), "environment.os"),
        ('[environment]\ngpu_types = ["H100"]', (), "environment.gpu_types"),
        ('[environment]\ntpu = { type = "v6e", topology = "2x2" }', (), "environment.tpu"),
        ('[verifier.environment]\ngpu_types = ["T4", "L4"]', (), "verifier.environment.gpu_types (T4, L4)"),
        ('[[verifier.collect]]\ncommand = "c"\nservice = "db"', (), 'verifier.collect[0].service = "db"'),
        ('[[artifacts]]\nsource = "/a"\nservice = "db"', (), 'artifacts[0].service = "db"'),
        ("", ("-environment/Dockerfile",), "environment.docker_image is not set"),
        ('[environment]\nenv = { K = "${HARBOR_TEST_UNSET}" }', (), "environment.env.K needs the variable"),
        ('[verifier]\nenv = { K = "${HARBOR_TEST_UNSET}" }', (), "verifier.env.K needs the variable"),
        (
            '[[artifacts]]\nsource = "relative"\nservice = "db"',
            ("environment/docker-compose.yaml",),
            'artifacts[0].source = "relative"',
        ),
    ],
)
def test_what_cannot_be_done_is_refused_by_name_when_it_is_run(
    task: MakeTask, toml: str, files: tuple[str, ...], key: str
) -> None:
    one = task(toml, *files)
    with pytest.raises(EnvFailed) as caught:
        configured(one)
    assert key in str(caught.value)
    assert str(one.directory / "task.toml") in str(caught.value)


def test_everything_that_cannot_be_done_is_told_at_once(task: MakeTask) -> None:
    with pytest.raises(EnvFailed) as caught:
        configured(task('[environment]\ntpu = { type = "v6e" }\ngpu_types = ["T4"]'))
    assert "environment.tpu" in str(caught.value)
    assert "gpu_types" in str(caught.value)


@pytest.mark.parametrize(
    ("toml", "network"),
    [
        ('[agent]\nnetwork_mode = "no-network"\n[verifier]\nnetwork_mode = "no-network"', "none"),
        ('[agent]\nnetwork_mode = "no-network"\n[verifier]\nenvironment_mode = "separate"', "none"),
        ('[environment]\nnetwork_mode = "no-network"\n[agent]\nnetwork_mode = "no-network"', "none"),
        ('[environment]\nnetwork_mode = "no-network"\n[verifier]\nenvironment_mode = "separate"', "none"),
    ],
)
def test_phases_that_agree_have_one_sandbox(task: MakeTask, toml: str, network: str) -> None:
    assert configured(task(toml)).network == network


def test_a_separate_verifier_has_a_network_of_its_own(task: MakeTask) -> None:
    one = task(
        '[environment]\nnetwork_mode = "no-network"\n[verifier.environment]\nnetwork_mode = "public"\ncpus = 3\n'
    )
    assert configured(one).network == "none"
    config = verifier_config(one.stages[0])
    assert (config.network, config.cpus) == ("public", 3)
    assert isinstance(config.image, ImageBuild)
    assert config.image.context == one.directory / "environment"


@pytest.mark.parametrize(
    ("toml", "files", "image", "bundled"),
    [
        ('[verifier]\nenvironment_mode = "separate"', (), "environment", False),
        ('[verifier]\nenvironment_mode = "separate"', ("tests/Dockerfile",), "tests", True),
        ('[verifier.environment]\ndocker_image = "v:1"', (), "v:1", True),
        ('[environment]\ndocker_image = "e:1"\n[verifier.environment]\ncpus = 1', (), "e:1", False),
    ],
)
def test_the_image_of_a_separate_verifier(
    task: MakeTask, toml: str, files: tuple[str, ...], image: str, bundled: bool
) -> None:
    stage = task(toml, *files).stages[0]
    assert stage.verifier_mode == "separate"
    found = verifier_config(stage).image
    assert (found.context.name if isinstance(found, ImageBuild) else found) == image
    assert stage.verifier_image.bundled is bundled


def test_a_step_inherits_what_it_does_not_say(task: MakeTask) -> None:
    one = task(
        """
        [agent]
        timeout_sec = 5
        user = "a"
        [verifier]
        timeout_sec = 6
        user = "v"
        env = { X = "1", Y = "1" }
        [[steps]]
        name = "one"
        [[steps]]
        name = "two"
        agent = { timeout_sec = 50, user = 7 }
        verifier = { timeout_sec = 60, env = { Y = "2" }, environment_mode = "separate" }
        """,
        *(f"steps/{step}/{file}" for step in ("one", "two") for file in ("instruction.md", "solution/solve.sh")),
        "steps/two/tests/test.sh",
    )
    first, second = one.stages
    assert (first.agent_timeout_s, first.agent_user, first.verifier_timeout_s, first.verifier_user) == (5, "a", 6, "v")
    assert (second.agent_timeout_s, second.agent_user, second.verifier_timeout_s) == (50, "7", 60)
    assert second.verifier_env == {"X": "1", "Y": "2"}
    assert (first.verifier_mode, second.verifier_mode) == ("shared", "separate")
    assert first.test_script == one.directory / "tests" / "test.sh"
    assert second.test_script == one.directory / "steps" / "two" / "tests" / "test.sh"
    assert second.tests == (one.directory / "tests", one.directory / "steps" / "two" / "tests")
    assert second.solution == one.directory / "steps" / "two" / "solution"


@pytest.mark.parametrize(
    ("path", "patterns", "excluded"),
    [
        ("a/b.tmp", ["*.tmp"], True),
        ("a/node_modules/x", ["node_modules"], True),
        ("a/node_modules", ["node_modules/"], True),
        ("a/b/c", ["b/c"], True),
        ("a/b/c", ["a/c"], False),
        ("a/b/c", ["a*c"], True),
        ("a/b.txt", ["*.tmp"], False),
        ("a/b", [], False),
    ],
)
def test_exclusions_are_those_of_tar(path: str, patterns: list[str], excluded: bool) -> None:
    assert is_excluded(path, patterns) is excluded


def result(name: str, value: float, **metrics: float) -> StepResult:
    score: dict[str, object] = {"reward": value}
    return StepResult(name=name, ended="completed", score={**score, "metrics": metrics} if metrics else score)


def test_the_mean_is_taken_key_by_key_and_a_missing_one_is_0() -> None:
    score = combine([result("a", 1, reward=1, x=1), result("b", 0, reward=0)], strategy="mean", key=None)
    assert score["reward"] == 0.5
    assert score["metrics"] == {"reward": 0.5, "x": 0.5}
    assert [step["name"] for step in score["steps"]] == ["a", "b"]


def test_the_mean_of_bare_numbers_has_no_metrics() -> None:
    score = combine([result("a", 1), result("b", 0), result("c", 1)], strategy="mean", key=None)
    assert score["reward"] == pytest.approx(2 / 3)
    assert "metrics" not in score


def test_the_final_strategy_takes_the_last_step_that_ran() -> None:
    score = combine([result("a", 1), result("b", 0.25, x=0.25)], strategy="final", key=None)
    assert (score["reward"], score["metrics"]) == (0.25, {"x": 0.25})


def test_a_chosen_key_is_the_reward_of_a_mean() -> None:
    assert combine([result("a", 1, x=1, y=0), result("b", 1, x=0, y=0)], strategy="mean", key="x")["reward"] == 0.5
    assert combine([result("a", 1), result("b", 0)], strategy="mean", key="x")["reward"] == 0.5


@pytest.mark.parametrize(
    ("minimum", "outcome", "missed"),
    [
        (None, result("a", 0), False),
        (0.5, result("a", 0.5), False),
        (0.5, result("a", 0.49), True),
        ({"x": 1}, result("a", 0, x=1, y=0), False),
        ({"x": 1, "y": 1}, result("a", 1, x=1, y=0), True),
        ({"z": -5}, result("a", 1, x=1), True),
    ],
)
def test_a_minimum_is_missed_or_not(minimum: object, outcome: StepResult, missed: bool) -> None:
    step = Step.model_validate({"name": "a", **({} if minimum is None else {"min_reward": minimum})})
    assert (missed_minimum(step, outcome) is not None) is missed


def test_a_compose_file_makes_the_environment_one_service_of_several(task: MakeTask) -> None:
    one = task("[environment]\ncpus = 2\nmemory_mb = 512", "environment/docker-compose.yaml")
    config = configured(one)
    assert config.compose is not None
    assert config.compose.files == (one.directory / "environment" / "docker-compose.yaml",)
    assert config.compose.service == "main"
    assert config.image == ImageBuild(context=one.directory / "environment")
    variables = config.compose.variables
    assert (variables["CPUS"], variables["MEMORY"]) == ("2", "512M")
    assert variables["CONTEXT_DIR"] == str(one.directory / "environment")
    assert variables["ENV_VERIFIER_LOGS_PATH"] == "/logs/verifier"


def test_without_a_dockerfile_the_compose_file_says_what_runs(task: MakeTask) -> None:
    config = configured(task("", "environment/docker-compose.yml", "-environment/Dockerfile"))
    assert config.compose is not None
    assert config.image is None


def test_the_sandboxes_of_separate_verifiers_are_known_ahead(task: MakeTask) -> None:
    def images(made: Task) -> list[object]:
        dataset = HarborDataset(HarborConfig(path=(str(made.directory),)))
        (instance,) = dataset.instances()
        return [config.image for config in dataset.more_sandboxes(instance)]

    assert images(task()) == []
    steps = "".join(
        f'[[steps]]\nname = "{name}"\n[steps.verifier]\nenvironment_mode = "{mode}"\n{more}'
        for name, mode, more in (
            ("one", "separate", '[steps.verifier.environment]\ndocker_image = "verify:1"\n'),
            ("two", "shared", ""),
            ("three", "separate", ""),
        )
    )
    files = [f"steps/{name}/instruction.md" for name in ("one", "two", "three")]
    made = task(steps, *files, "steps/three/tests/Dockerfile")
    assert images(made) == ["verify:1", ImageBuild(context=made.directory / "steps/three/tests")]


def test_a_separate_verifier_may_have_services_of_its_own(task: MakeTask) -> None:
    one = task('[verifier]\nenvironment_mode = "separate"', "tests/docker-compose.yaml")
    assert configured(one).compose is None
    config = verifier_config(one.stages[0])
    assert config.compose is not None
    assert config.compose.files == (one.directory / "tests" / "docker-compose.yaml",)
    assert one.stages[0].verifier_image.bundled


def test_mcp_servers_are_handed_on_as_they_are(task: MakeTask) -> None:
    toml = """
[[environment.mcp_servers]]
name = "web"
transport = "http"
url = "http://mcp:8000/mcp"
headers = { A = "b" }
[[environment.mcp_servers]]
name = "tool"
transport = "stdio"
command = "/bin/tool"
args = ["-v"]
"""
    one = task(toml)
    configured(one)
    dataset = HarborDataset(HarborConfig(path=(str(one.directory),)))
    (instance,) = dataset.instances()
    assert [server.as_dict() for server in dataset.mcp_servers(instance)] == [
        {"name": "web", "transport": "streamable-http", "url": "http://mcp:8000/mcp", "headers": {"A": "b"}},
        {"name": "tool", "transport": "stdio", "command": "/bin/tool", "args": ["-v"]},
    ]
