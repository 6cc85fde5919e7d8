"""What the format allows and this dataset does not do yet, refused by name when a task is run.

What depends on the provider (GPUs, networks, limits, users, building images) is not here: it goes into the
sandbox's config, and the provider honours or refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentix.api import Capability, EnvFailed, Sandbox, Unsupported
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


def agent_network(stage: Stage) -> NetworkPolicy:
    """The policy of a stage's agent; the sandbox is created with that of the first one."""
    own = None if stage.step is None else stage.step.agent.network
    return own or stage.task.file.agent.network or stage.task.file.environment.network


def refuse_unswitchable(task: Task, sandbox: Sandbox) -> None:
    """Check, before any work is done, that one sandbox can have the networks of all phases that run in it.

    Raises:
        Unsupported: They differ, and the provider cannot switch them, or not to these.
    """
    phases = dict(_phases(task))
    policies = set(phases.values())
    if len(policies) == 1:
        return
    said = ", ".join(f"{key} is {policy}" for key, policy in phases.items())
    where = f"{task.directory / TASK_FILE}: network_mode: {said}, in one sandbox"
    hint = 'Give them one policy, or set [verifier].environment_mode = "separate".'
    if Capability.NETWORK_SWITCH not in sandbox.capabilities:
        name = sandbox.provider_name
        raise Unsupported(f"{where}, and the provider {name} cannot switch the network of one that runs", hint=hint)
    if any(policy.network == "allowlist" for policy in policies):
        raise Unsupported(f"{where}, which cannot be switched to an allowlist or from one", hint=hint)
    if sandbox.config.compose is not None:
        raise Unsupported(f"{where}, which cannot be switched where services run beside it", hint=hint)


def _phases(task: Task) -> Iterator[tuple[str, NetworkPolicy]]:
    base = task.file.environment.network
    for stage in task.stages:
        yield f"{stage.key}agent", agent_network(stage)
        if stage.verifier_mode == "shared":
            yield f"{stage.key}verifier", verifier_network(stage, base)


def verifier_network(stage: Stage, base: NetworkPolicy) -> NetworkPolicy:
    """The policy of the tests, where the environment that they run in has the policy `base`."""
    own = None if stage.step is None else stage.step.verifier.network
    return own or stage.task.file.verifier.network or base


def _unsupported(task: Task) -> Iterator[str]:
    file = task.file
    alone = compose_file(task.directory / "environment") is None
    yield from _in_environment(file.environment, "environment")
    if alone and not file.environment.docker_image and not (task.directory / "environment" / "Dockerfile").is_file():
        yield "environment.docker_image is not set and there is no environment/Dockerfile"
    tables = [(file.verifier, "verifier")]
    tables += [(step.verifier, f"steps[{index}].verifier") for index, step in enumerate(file.steps)]
    for verifier, key in tables:
        if verifier.environment is not None:
            yield from _in_environment(verifier.environment, f"{key}.environment")
        for index, hook in enumerate(verifier.collect):
            if hook.service != MAIN_SERVICE and alone:
                yield f'{key}.collect[{index}].service = "{hook.service}": there is no compose file, so no such service'
    lists = [(file.artifacts, "artifacts")]
    lists += [(step.artifacts, f"steps[{index}].artifacts") for index, step in enumerate(file.steps)]
    for artifacts, key in lists:
        for index, artifact in enumerate(artifacts):
            if artifact.service in (None, MAIN_SERVICE):
                continue
            if alone:
                yield f'{key}[{index}].service = "{artifact.service}": there is no compose file, so no such service'
            elif not artifact.source.startswith("/"):
                yield f'{key}[{index}].source = "{artifact.source}": in a service, paths are absolute'


def _in_environment(environment: Environment, key: str) -> Iterator[str]:
    if environment.os != "linux":
        yield f'{key}.os = "{environment.os}": sandboxes run Linux'
    if environment.gpu_types:
        types = ", ".join(environment.gpu_types)
        yield f"{key}.gpu_types ({types}): engines hand GPUs on by their number, and cannot be asked for a type"
    if environment.tpu is not None:
        yield f"{key}.tpu: no provider has TPUs"
