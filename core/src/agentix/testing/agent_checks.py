"""Checks of an agent: it can be called as the runner does, and can be stopped."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from agentix.interfaces import Agent, ConfiguresSandbox, Dataset, Deterministic, HasVersion, Prepares, RolloutContext
from agentix.models import AgentResult, Limits, SandboxConfig, Trial
from agentix.testing.cases import AgentCase
from agentix.testing.checks import Checks, expect, not_applicable
from agentix.testing.provider_sandboxes import labelled

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox

AGENT = Checks("agent")

_GRACE_S = 30.0


class OneFile:
    """A dataset with one task: write a file."""

    def instances(self) -> list[dict[str, Any]]:
        """The task."""
        return [{"instance_id": "one-file", "instruction": "Write the word done into the file answer.txt."}]

    def image(self, instance: dict[str, Any]) -> str:
        """No image."""
        return ""

    async def setup(self, sandbox: Sandbox, instance: dict[str, Any]) -> bool:
        """Nothing is needed."""
        return True

    async def score(self, sandbox: Sandbox, instance: dict[str, Any], patch: str) -> dict[str, Any]:
        """Look for the word in the patch."""
        return {"resolved": "+done" in patch}

    async def reference(self, sandbox: Sandbox, instance: dict[str, Any]) -> AgentResult:
        """Write the file."""
        await sandbox.write_file(f"{sandbox.workdir.rstrip('/')}/answer.txt", b"done\n")
        return AgentResult()


@AGENT.add()
async def solve_has_the_signature(agent: Agent, case: AgentCase) -> None:
    """`solve` is async and takes `(sandbox, instance, *, model)`; more than that only where it has a default."""
    expect(inspect.iscoroutinefunction(agent.solve), "solve is no async function")
    signature = inspect.signature(agent.solve)
    keywords: dict[str, object] = {"model": None}
    if "context" in signature.parameters:
        keywords["context"] = None
    try:
        signature.bind(None, None, **keywords)
    except TypeError as exc:
        expect(False, f"solve{signature} cannot be called so: {exc}")


@AGENT.add()
async def optional_parts_are_well_typed(agent: Agent, case: AgentCase) -> None:
    """What it has of `prepare`, `deterministic` and `version` is of the type that the interface says."""
    if isinstance(agent, Prepares):
        expect(inspect.iscoroutinefunction(agent.prepare), "prepare is no async function")
    if isinstance(agent, Deterministic):
        expect(isinstance(agent.deterministic, bool), f"deterministic is {agent.deterministic!r}")
    if isinstance(agent, HasVersion):
        expect(isinstance(agent.version, str), f"version is {agent.version!r}")


@AGENT.add()
async def solve_returns_a_result(agent: Agent, case: AgentCase) -> None:
    """`solve` returns an `AgentResult` of str, int and mapping fields."""
    async with _task(case) as (sandbox, instance, dataset):
        result = await _solve(agent, sandbox, instance, dataset, case)
    expect(isinstance(result, AgentResult), f"solve returned a {type(result).__name__}")
    expect(isinstance(result.patch, str), f"patch is a {type(result.patch).__name__}")
    exit_code: object = result.exit_code
    expect(exit_code is None or isinstance(exit_code, int), f"exit_code is {exit_code!r}")


@AGENT.add()
async def solve_can_be_cancelled(agent: Agent, case: AgentCase) -> None:
    """A cancelled `solve` ends within seconds."""
    for seconds in (0.0, 0.05, 0.5):
        async with _task(case) as (sandbox, instance, dataset):
            with anyio.move_on_after(seconds) as scope:
                await _solve(agent, sandbox, instance, dataset, case)
            late = anyio.current_time() - scope.deadline
            expect(late < _GRACE_S, f"solve went on for {late:.0f} s after it was cancelled")


@asynccontextmanager
async def _task(case: AgentCase) -> AsyncIterator[tuple[Sandbox, dict[str, Any], Dataset]]:
    if case.provider is None:
        not_applicable("the case has no provider to work on")
    dataset: Dataset = case.dataset or OneFile()
    instance = next(iter(dataset.instances()), None)
    if instance is None:
        not_applicable("the case's dataset has no instances")
    config = SandboxConfig(image=dataset.image(instance) or None)
    if isinstance(dataset, ConfiguresSandbox):
        config = dataset.sandbox_config(instance)
    async with case.provider.session(labelled(config)) as sandbox:
        await dataset.setup(sandbox, instance)
        yield sandbox, instance, dataset


async def _solve(
    agent: Agent, sandbox: Sandbox, instance: dict[str, Any], dataset: Dataset, case: AgentCase
) -> AgentResult:
    if isinstance(agent, Prepares):
        await agent.prepare(sandbox)
    parameters = inspect.signature(agent.solve).parameters
    if "context" not in parameters and all(p.kind is not p.VAR_KEYWORD for p in parameters.values()):
        return await agent.solve(sandbox, instance, model=case.model)
    context = RolloutContext(
        trial=Trial(trial_id="agentix-check", instance=instance, model=case.model),
        dataset=dataset,
        instruction=str(instance.get("instruction") or instance.get("problem_statement") or ""),
        limits=Limits(),
    )
    return await agent.solve(sandbox, instance, model=case.model, context=context)  # type: ignore[call-arg]
