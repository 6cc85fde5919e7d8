"""What a name in the file stands for: an installed step, a transport as a step, or a configured command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentix.api import AgentixError, PluginNotFound, Step, list_plugins, load, plugin_label
from agentix.plugins.experiments.documents import nearest
from agentix.plugins.experiments.steps.inputs import StepProblem, StepUnknown
from agentix.plugins.experiments.steps.transport_step import TransportStep

if TYPE_CHECKING:
    from agentix.plugins.experiments.commands import Command

SHIP = "ship_"
"""With what the names of steps that ship begin; the rest names a transport."""
_STANDARD = "agentix-rollouts-steps"


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a name stands for: a step or, where there is none, a command."""

    plugin: str
    """How errors and records call it."""
    step: Step | None = None
    command: Command | None = None


def find_step(name: str, commands: Mapping[str, Command], *, where: str, notices: list[str] | None = None) -> Found:
    """Find the step of a name; what is installed wins over a configured command.

    Args:
        name: As the file has it.
        commands: The configured commands.
        where: Where it stands.
        notices: Where to say that a transport wins over a command.

    Raises:
        StepUnknown: There is none, or it cannot be loaded.
    """
    command = commands.get(name)
    if installed(name) or (command is None and is_reference(name)):
        step = load_step(name, where)
        return Found(plugin=plugin_label(step), step=step)
    if (transport := transport_of(name)) is not None:
        _check_one(name, transport, where)
        found = transport_step(transport, where)
        if command is not None and notices is not None:
            notices.append(f"{where}: the installed transport {found.plugin} ships, not the configured command {name}")
        return found
    if command is not None:
        return Found(plugin=f"the command {name}", command=command)
    message = f"{name!r} is neither an installed step nor a configured command"
    known = {info.name for info in list_plugins("step")} | set(transport_steps()) | set(commands)
    raise StepUnknown(
        [StepProblem(path=where, message=message + _install(name), near=nearest(name, known), unknown=True)]
    )


def standard(name: str) -> str:
    """How to name a step that is added to a file: a stranger of its name keeps no run from having it."""
    several = sum(info.name == name for info in list_plugins("step")) > 1
    return f"{_STANDARD}/{name}" if several else name


def installed(name: str) -> bool:
    """Whether there is an installed step of that name."""
    bare = name.rpartition("/")[2]
    return any(info.name == bare for info in list_plugins("step"))


def inputs_of(name: str | None, commands: Mapping[str, Command]) -> frozenset[str] | None:
    """The inputs of the step of a name; `None` where it takes any, or nobody knows."""
    if name is None or name in commands:
        return None
    try:
        found = find_step(name, commands, where=name).step
    except StepUnknown:
        return None
    fields = {} if found is None else found.Inputs.model_fields
    return frozenset(key for field, info in fields.items() for key in (field, info.alias) if key)


def is_reference(name: str) -> bool:
    """Whether it is a file or a module rather than a name."""
    return ":" in name or name.endswith(".py")


def ships(name: str) -> bool:
    """Whether what has that name is there to ship."""
    return name.rpartition("/")[2].startswith(SHIP) and not is_reference(name)


def transport_steps() -> dict[str, str]:
    """The names of the installed transports, by the steps that ship with them."""
    return {step_name(info.name): info.name for info in list_plugins("transport")}


def step_name(transport: str) -> str:
    """What files call the step that ships with a transport."""
    return SHIP + transport.replace("-", "_")


def transport_of(name: str) -> str | None:
    """The installed transport that a step such as `ship_hf` ships with."""
    distribution, slash, bare = name.rpartition("/")
    found = transport_steps().get(bare)
    return None if found is None else f"{distribution}{slash}{found}"


def _check_one(name: str, transport: str, where: str) -> None:
    """See that one transport only is meant; the picks are names of steps here, and of transports elsewhere."""
    found = [info for info in list_plugins("transport") if info.name == transport]
    if len(found) > 1:
        owners = "; ".join(f"{info.distribution} {info.version}" for info in found)
        picks = ", ".join(f"{info.distribution}/{name}" for info in found)
        message = f"the step {name!r} is provided by several: {owners}\n  pick one: {picks}"
        raise StepUnknown([StepProblem(path=where, message=message)])


def load_step(name: str, where: str) -> Step:
    """An installed step, or one of a file or a module.

    Raises:
        StepUnknown: It cannot be loaded.
    """
    try:
        return load("step", name, where=where)
    except AgentixError as error:
        raise _refused(error, where) from error


def transport_step(transport: str, where: str) -> Found:
    """A transport, by its name, its file or its module, as a step.

    Raises:
        StepUnknown: It cannot be loaded.
    """
    name = transport if is_reference(transport) else step_name(transport.rpartition("/")[2])
    try:
        loaded = load("transport", transport, where=where)
        return Found(plugin=plugin_label(loaded), step=TransportStep(loaded, name=name))
    except AgentixError as error:
        raise _refused(error, where) from error


def _refused(error: AgentixError, where: str) -> StepUnknown:
    return StepUnknown([StepProblem(path=where, message=str(error).removeprefix(f"{where}: "))])


def _install(name: str) -> str:
    """What to install where it is a transport that is not there."""
    return "".join(f"; {hint}" for hint in _hints(name))


def _hints(name: str) -> Iterator[str]:
    if ships(name):
        try:
            load("transport", name.removeprefix(SHIP).replace("_", "-"))
        except PluginNotFound as error:
            yield from (part for part in (error.hint or "").split("; ") if part.startswith("pip install"))
        except AgentixError:  # it is there after all, and not what was asked for
            return
