"""The dataset `harbor`: task directories in the Harbor format."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from agentix.api import (
    AgentResult,
    DatasetError,
    EnvFailed,
    Flow,
    ImageBuild,
    Limits,
    McpServer,
    Sandbox,
    SandboxConfig,
    content_hash,
)
from agentix.plugins.datasets.harbor.artifacts import with_convention
from agentix.plugins.datasets.harbor.current_stage import CurrentStage
from agentix.plugins.datasets.harbor.discovery import find_tasks
from agentix.plugins.datasets.harbor.driver import Driver
from agentix.plugins.datasets.harbor.healthcheck import wait_healthy
from agentix.plugins.datasets.harbor.places import make_log_dirs, refuse_shared_files
from agentix.plugins.datasets.harbor.sandbox_config import (
    agent_config,
    agent_image,
    uploads_environment,
    verifier_config,
)
from agentix.plugins.datasets.harbor.schema import MAIN_SERVICE
from agentix.plugins.datasets.harbor.solution import play_solution
from agentix.plugins.datasets.harbor.task import TASK_FILE, Task
from agentix.plugins.datasets.harbor.template import partial_templates
from agentix.plugins.datasets.harbor.toml_file import unknown_keys
from agentix.plugins.datasets.harbor.verifier import Verifier

logger = logging.getLogger(__name__)

_KEPT_TASKS = 512
_SHOWN = 20
_NAMED = 5


class HarborConfig(BaseModel):
    """Options of the dataset `harbor`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: tuple[str, ...] = Field(min_length=1)
    """Task directories, directories of tasks, or globs; one or several."""
    reward_key: str | None = None
    """Which key of reward.json is the reward; by default `reward`, else the only key, else the mean of all."""
    skip_invalid: bool = False
    """Leave out tasks whose files are malformed, with a warning, instead of running nothing."""
    force_build: bool = False
    """Build from a Dockerfile where there is one, even if task.toml names an image."""
    services: Literal["keep", "kill"] = "keep"
    """Whether what an agent left running lives on while a shared verifier runs; some tasks are graded by asking a
    server that the agent started."""

    @field_validator("path", mode="before")
    @classmethod
    def _accept_one(cls, value: Any) -> Any:
        values = [value] if isinstance(value, str | Path) else value
        return [str(v) if isinstance(v, Path) else v for v in values] if isinstance(values, list | tuple) else values


class HarborDataset:
    """Tasks in the Harbor format.

    An instance's id is the name of its task directory. Tasks need a sandbox with a file system of its own, since
    the format fixes absolute paths.

    Args:
        config: The options.
    """

    Config: ClassVar[type[BaseModel]] = HarborConfig
    answer: Literal["patch", "state"] = "state"

    def __init__(self, config: HarborConfig) -> None:
        self.config = config
        self._tasks: OrderedDict[str, Task] = OrderedDict()
        self._current = CurrentStage()
        self._told: set[str] = set()

    def instances(self) -> Iterator[dict[str, Any]]:
        """Yield the tasks in the order of the paths and, within one, of names.

        Raises:
            DatasetError: Tasks are malformed (all of them are listed) or two have one id.
        """
        for directory in self._checked_directories():
            task = self._load(directory)
            instance: dict[str, Any] = {"instance_id": directory.name, "path": str(directory)}
            if task.file.task is not None:
                instance["name"] = task.file.task.name
            yield instance

    def image(self, instance: dict[str, Any]) -> str | ImageBuild:
        """The image that the agent works in."""
        return agent_image(self._task(instance), force_build=self.config.force_build)

    def sandbox_config(self, instance: dict[str, Any]) -> SandboxConfig:
        """The agent's sandbox.

        Raises:
            EnvFailed: The task asks for something that cannot be done yet, or a variable is not set.
        """
        return agent_config(self._task(instance), force_build=self.config.force_build)

    def more_sandboxes(self, instance: dict[str, Any]) -> list[SandboxConfig]:
        """Those of separate verifiers, in the order of the steps.

        Raises:
            EnvFailed: The task asks for something that cannot be done yet, or a variable is not set.
        """
        stages = self._task(instance).stages
        separate = [stage for stage in stages if stage.verifier_mode == "separate"]
        return [verifier_config(stage, force_build=self.config.force_build) for stage in separate]

    def instruction(self, instance: dict[str, Any]) -> str:
        """What to ask the agent for; the first step's instruction for a multi-step task."""
        return self._task(instance).stages[0].instruction

    def limits(self, instance: dict[str, Any]) -> Limits:
        """The task's own times."""
        task = self._task(instance)
        values: dict[str, Any] = {"create_s": task.file.environment.build_timeout_sec}
        check = task.file.environment.healthcheck
        if check is not None:
            values["setup_s"] = 600.0 + check.longest_s
        if not task.is_multi_step:
            values["agent_s"] = task.stages[0].agent_timeout_s
            values["score_s"] = task.stages[0].verifier_timeout_s
        return Limits(**values)

    def mcp_servers(self, instance: dict[str, Any]) -> tuple[McpServer, ...]:
        """The servers that `[[environment.mcp_servers]]` names; the environment runs them."""
        return tuple(server.given() for server in self._task(instance).file.environment.mcp_servers)

    def skills_dir(self, instance: dict[str, Any]) -> str | None:
        """Where the environment has skills for the agent."""
        return self._task(instance).file.environment.skills_dir

    def scoring(self, instance: dict[str, Any]) -> Literal["fresh", "shared"]:
        """`shared`; a separate verifier is the driven flow's own."""
        return "shared"

    def content_hash(self, instance: dict[str, Any]) -> str:
        """The hash over everything in the task directory but `.git`."""
        return content_hash(Path(instance["path"]))

    def artifacts(self, instance: dict[str, Any]) -> list[str]:
        """What the task declares, and `/logs/artifacts`."""
        found = [artifact for stage in self._task(instance).stages for artifact in with_convention(stage.artifacts)]
        own = (artifact for artifact in found if artifact.service in (None, MAIN_SERVICE))
        return list(dict.fromkeys(artifact.source for artifact in own if artifact.source.startswith("/")))

    async def setup(self, sandbox: Sandbox, instance: dict[str, Any]) -> bool:
        """Make the log directories, upload what no image brings, wait until the environment is healthy."""
        task = self._task(instance)
        refuse_shared_files(sandbox)
        await make_log_dirs(sandbox)
        if uploads_environment(task):
            await sandbox.upload(task.directory / "environment", sandbox.workdir)
        check = task.file.environment.healthcheck
        if check is not None:
            await wait_healthy(sandbox, check, key=f"{task.directory / TASK_FILE}: environment.healthcheck")
        return True

    async def score(self, sandbox: Sandbox, instance: dict[str, Any], patch: str) -> dict[str, Any]:
        """Run the tests of a single-step task on the state of this sandbox."""
        task = self._task(instance)
        if task.is_multi_step:
            raise EnvFailed(f"{task.directory}: the steps of a multi-step task are graded while they run")
        return await Verifier(stage=task.stages[0], reward_key=self.config.reward_key, note=logger.info).run(sandbox)

    async def reference(self, sandbox: Sandbox, instance: dict[str, Any]) -> AgentResult:
        """Run the task's `solve.sh`, of the step that is being solved."""
        return await play_solution(sandbox, self._current.of(sandbox) or self._task(instance).stages[0])

    async def drive(self, flow: Flow, instance: dict[str, Any]) -> dict[str, Any]:
        """Run the agent and the tests in the order that the format lays down."""
        driver = Driver(
            task=self._task(instance),
            flow=flow,
            current=self._current,
            reward_key=self.config.reward_key,
            kill_services=self.config.services == "kill",
            force_build=self.config.force_build,
        )
        return await driver.run()

    def _task(self, instance: dict[str, Any]) -> Task:
        return self._load(Path(instance["path"]))

    def _load(self, directory: Path) -> Task:
        key = str(directory)
        task = self._tasks.get(key) or Task.load(directory)
        self._tasks[key] = task
        self._tasks.move_to_end(key)
        if len(self._tasks) > _KEPT_TASKS:
            self._tasks.popitem(last=False)
        return task

    def _checked_directories(self) -> list[Path]:
        places: dict[str, Path] = {}
        problems: list[str] = []
        warnings: dict[str, list[str]] = {}
        directories = []
        no_tasks: list[Path] = []
        for directory in find_tasks(self.config.path, left_out=no_tasks.append):
            try:
                directory.name.encode("utf-8")
                task = self._load(directory)
            except UnicodeEncodeError:
                problems.append(f"{str(directory)!r}: the name of a task directory has to be UTF-8")
                continue
            except DatasetError as error:
                problems.append(str(error))
                continue
            other = places.setdefault(directory.name, directory)
            if other is not directory:
                raise DatasetError(
                    f"two tasks have the id {directory.name!r}: {other} and {directory}",
                    hint="The id of a task is the name of its directory.",
                )
            directories.append(directory)
            for message in _warnings(task):
                warnings.setdefault(message, []).append(directory.name)
        for message, tasks in warnings.items():
            if message in self._told:
                continue
            self._told.add(message)
            more = f" and {len(tasks) - 3} more" if len(tasks) > 3 else ""
            logger.warning("%s (in %s%s)", message, ", ".join(tasks[:3]), more)
        if no_tasks and TASK_FILE not in self._told:
            self._told.add(TASK_FILE)
            more = f" and {len(no_tasks) - _NAMED} more" if len(no_tasks) > _NAMED else ""
            logger.warning("left out, having no %s: %s%s", TASK_FILE, ", ".join(map(str, no_tasks[:_NAMED])), more)
        if problems and not (self.config.skip_invalid and directories):
            shown = problems[:_SHOWN] + ([f"… and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else [])
            raise DatasetError("\n".join(shown), hint="skip_invalid=true runs the tasks that are well-formed.")
        for problem in problems:
            logger.warning("left out: %s", problem)
        return directories


def _warnings(task: Task) -> Iterator[str]:
    for key, nearest in unknown_keys(task.file):
        meant = "" if nearest is None else f"; did you mean {nearest}?"
        yield f"{TASK_FILE}: the key {key} is not known and changes nothing{meant}"
    for key in partial_templates(task.file.environment.env):
        yield f"{TASK_FILE}: environment.env.{key}: ${{…}} is replaced only where it is the whole value"
