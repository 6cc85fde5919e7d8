"""What the format allows and this dataset does not do yet, refused by name when a task is run.

What depends on the provider (GPUs, networks, limits, users, building images) is not here: it goes into the
sandbox's config, and the provider honours or refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentix.api import EnvFailed
from agentix.plugins.datasets.harbor.compose import compose_file
from agentix.plugins.datasets.harbor.network import NetworkPolicy
from agentix.plugins.datasets.harbor.schema import MAIN_SERVICE, Environment
from agentix.plugins.datasets.harbor.task import TASK_FILE, Stage, Task

_ELSEWHERE = "The Harbor CLI runs such tasks."


def refuse_unsupported(task: Task) -> None:
    """Check that everything a task asks for can be done.

    Raises:
        EnvFailed: Something cannot; the message names every such key of task.toml.
    """
    found = list(_unsupported(task))
    if found:
        path = task.directory / TASK_FILE
        raise EnvFailed("; ".join(f"{path}: {what}" for what in found), detail="unsupported", hint=_ELSEWHERE)


def agent_network(task: Task) -> NetworkPolicy:
    """The network of the agent's sandbox: what all phases that run in it agree on.

    The network of a sandbox that runs cannot be switched, so phases that differ need sandboxes of their own.

    Raises:
        EnvFailed: They do not agree.
    """
    phases = dict(_phases(task))
    policies = set(phases.values())
    if len(policies) == 1:
        return policies.pop()
    said = ", ".join(f"{key} is {policy}" for key, policy in phases.items())
    raise EnvFailed(
        f"{task.directory / TASK_FILE}: network_mode: {said}, in one sandbox, whose network cannot be switched",
        detail="unsupported",
        hint='Give them one policy, or set [verifier].environment_mode = "separate".',
    )


def _phases(task: Task) -> Iterator[tuple[str, NetworkPolicy]]:
    base = task.file.environment.network
    for stage in task.stages:
        own = None if stage.step is None else stage.step.agent.network
        yield f"{stage.key}agent", own or task.file.agent.network or base
        if stage.verifier_mode == "shared":
            yield f"{stage.key}verifier", verifier_network(stage, base)


def verifier_network(stage: Stage, base: NetworkPolicy) -> NetworkPolicy:
    """The policy of the tests, where the environment that they run in has the policy `base`."""
    own = None if stage.step is None else stage.step.verifier.network
    return own or stage.task.file.verifier.network or base


def _unsupported(task: Task) -> Iterator[str]:
    file = task.file
    yield from _in_environment(file.environment, "environment")
    if (
        compose_file(task.directory / "environment") is None
        and not file.environment.docker_image
        and not (task.directory / "environment" / "Dockerfile").is_file()
    ):
        yield "environment.docker_image is not set and there is no environment/Dockerfile"
    tables = [(file.verifier, "verifier")]
    tables += [(step.verifier, f"steps[{index}].verifier") for index, step in enumerate(file.steps)]
    for verifier, key in tables:
        if verifier.environment is not None:
            yield from _in_environment(verifier.environment, f"{key}.environment")
        for index, hook in enumerate(verifier.collect):
            if hook.service != MAIN_SERVICE:
                yield f'{key}.collect[{index}].service = "{hook.service}": commands run in {MAIN_SERVICE} only'
    lists = [(file.artifacts, "artifacts")]
    lists += [(step.artifacts, f"steps[{index}].artifacts") for index, step in enumerate(file.steps)]
    for artifacts, key in lists:
        for index, artifact in enumerate(artifacts):
            if artifact.service not in (None, MAIN_SERVICE):
                yield f'{key}[{index}].service = "{artifact.service}": artifacts come from {MAIN_SERVICE} only'


def _in_environment(environment: Environment, key: str) -> Iterator[str]:
    if environment.os != "linux":
        yield f'{key}.os = "{environment.os}": sandboxes run Linux'
    if environment.gpu_types:
        yield f"{key}.gpu_types: no provider can choose a type of GPU yet"
    if environment.tpu is not None:
        yield f"{key}.tpu: no provider has TPUs"
    if environment.skills_dir is not None:
        yield f"{key}.skills_dir: agents cannot be given skills yet"
