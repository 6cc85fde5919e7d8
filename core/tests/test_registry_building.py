"""What a reference finds is taken for what it is."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from agentix.errors import AgentFailed, ConfigError, EnvFailed, PluginBroken
from agentix.interfaces import Agent
from agentix.models import AgentResult
from agentix.registry.building import build
from agentix.registry.resolving import Found


class Plain:
    async def solve(self, sandbox: Any, instance: dict[str, Any], *, model: str | None) -> AgentResult:
        return AgentResult(patch="plain")


class Configured(Plain):
    class Config(BaseModel):
        size: int = 3

    def __init__(self, config: Config) -> None:
        self.size = config.size


class NeedsArgument(Plain):
    def __init__(self, path: str) -> None:
        self.path = path


class Fails(Plain):
    def __init__(self) -> None:
        raise KeyError("lost")


class Refuses(Plain):
    def __init__(self) -> None:
        raise EnvFailed("no key")


class SetsAttributes:
    """A step whose attributes exist only on its objects."""

    def __init__(self) -> None:
        self.scopes: frozenset[Any] = frozenset()
        self.Inputs = BaseModel

    async def run(self, ctx: Any, inputs: Any) -> Any: ...


def made(value: object, options: dict[str, object] | None = None, *, kind: str = "agent") -> Any:
    return build(kind, Found(value, "mine"), options or {}, where="--agent")  # type: ignore[arg-type]


def test_an_object_is_used_as_it_is() -> None:
    agent = Plain()
    assert made(agent) is agent


def test_an_object_takes_no_options() -> None:
    with pytest.raises(ConfigError, match=r"^--agent-opt size: mine is an object that was made already and takes no"):
        made(Configured(Configured.Config()), {"size": 1})


def test_a_class_is_instantiated_with_its_options() -> None:
    assert isinstance(made(Plain), Plain)
    assert made(Configured).size == 3
    assert made(Configured, {"size": "5"}).size == 5


def test_a_class_without_config_takes_no_options() -> None:
    with pytest.raises(ConfigError, match=r"^--agent-opt size: mine has no Config and takes no options"):
        made(Plain, {"size": 1})


def test_attributes_may_be_set_when_the_object_is_made() -> None:
    assert isinstance(made(SetsAttributes, kind="step"), SetsAttributes)


def test_a_factory_is_called() -> None:
    assert isinstance(made(lambda: Plain()), Plain)


def test_a_factory_may_carry_a_config() -> None:
    def make(config: Configured.Config) -> Configured:
        return Configured(config)

    make.Config = Configured.Config  # type: ignore[attr-defined]
    assert made(make, {"size": 7}).size == 7


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (3, "mine is an int, not an agent; it lacks solve"),
        (BaseModel, "mine is the class BaseModel, not an agent; it lacks solve"),
        (lambda: 3, "mine is a function that returned an int, not an agent"),
        (lambda: Plain, "mine is a function that returned the class Plain"),
        (lambda path: Plain(), "mine cannot be called with no arguments: missing a required argument: 'path'"),
        (NeedsArgument, "mine cannot be called with no arguments: missing a required argument: 'path'"),
        (pytest, "mine is a module, not an agent"),
    ],
)
def test_anything_else_is_an_error_that_says_what_it_is(value: object, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        made(value)
    assert str(error.value).startswith(f"--agent: {said}")


def test_a_plugin_whose_own_code_fails_is_broken() -> None:
    with pytest.raises(PluginBroken, match="KeyError: 'lost'") as error:
        made(Fails)
    assert isinstance(error.value.__cause__, KeyError)


def test_an_error_that_a_plugin_raises_on_purpose_is_kept() -> None:
    with pytest.raises(EnvFailed, match="no key"):
        made(Refuses)


@pytest.mark.anyio
async def test_an_async_function_is_an_agent() -> None:
    seen: list[Any] = []

    async def solve(sandbox: Any, instance: dict[str, Any], *, model: str | None) -> AgentResult:
        seen.append((sandbox, instance, model))
        return AgentResult(patch="p")

    agent = made(solve)
    assert isinstance(agent, Agent)
    assert (await made(solve).solve("box", {"a": 1}, model="m")).patch == "p"
    assert seen == [("box", {"a": 1}, "m")]


@pytest.mark.anyio
async def test_an_agent_function_is_passed_what_it_takes() -> None:
    async def bare(sandbox: Any, instance: Any) -> None: ...

    async def wants_context(sandbox: Any, instance: Any, *, context: Any) -> AgentResult:
        return AgentResult(patch=context)

    async def takes_all(sandbox: Any, instance: Any, **keywords: Any) -> AgentResult:
        return AgentResult(info=keywords)

    async def gives_a_patch(sandbox: Any, instance: Any) -> str:
        return "a patch"

    assert (await made(gives_a_patch).solve(None, {}, model="m")).patch == "a patch"
    assert await made(bare).solve(None, {}, model="m") == AgentResult()
    assert (await made(wants_context).solve(None, {}, model="m", context="ctx")).patch == "ctx"
    assert (await made(takes_all).solve(None, {}, model="m")).info == {"model": "m", "context": None}


@pytest.mark.anyio
async def test_an_agent_function_that_returns_something_else_has_failed() -> None:
    async def solve(sandbox: Any, instance: Any) -> int:
        return 0

    with pytest.raises(AgentFailed, match="mine returned an int"):
        await made(solve).solve(None, {}, model=None)


def test_a_world_agent_is_refused_clearly() -> None:
    async def solve(task: Any, call_tool: Any, signal: Any) -> None: ...

    with pytest.raises(ConfigError, match=r"is an agent for worlds.*has no worlds yet"):
        made(solve)


def test_an_async_function_with_other_parameters_is_refused() -> None:
    async def solve(one: Any) -> None: ...

    with pytest.raises(ConfigError, match=r"mine takes \(one: 'Any'\) -> 'None'|mine takes") as error:
        made(solve)
    assert "(sandbox, instance, *, model)" in str(error.value)


def test_an_async_factory_is_refused() -> None:
    async def make() -> Any: ...

    with pytest.raises(ConfigError, match="is an async function; a dataset is an object"):
        made(make, kind="dataset")
