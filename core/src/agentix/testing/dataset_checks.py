"""Checks of a dataset: its instances are well-formed, and its scorer tells right from wrong."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any, get_args

from agentix.errors import EnvFailed
from agentix.interfaces import (
    Answer,
    ChoosesAnswer,
    ChoosesScoring,
    ConfiguresSandbox,
    Dataset,
    HasArtifacts,
    HasContentHash,
    HasInstruction,
    HasLimits,
    HasReference,
    NeedsMoreSandboxes,
    Scoring,
)
from agentix.models import AgentResult, ImageBuild, Limits, Rollout, SandboxConfig
from agentix.testing.cases import DatasetCase
from agentix.testing.checks import Checks, expect, not_applicable

DATASET = Checks("dataset")


class Reference:
    """An agent that plays a dataset's reference answer."""

    deterministic = True

    def __init__(self, dataset: HasReference) -> None:
        self._dataset = dataset
        self.absent: str | None = None
        """Why an instance has no reference answer."""

    async def solve(self, sandbox: Any, instance: dict[str, Any], *, model: str | None) -> AgentResult:
        """Play it."""
        try:
            return await self._dataset.reference(sandbox, instance)
        except EnvFailed as exc:
            self.absent = exc.message
            raise


class Nothing:
    """An agent that changes nothing."""

    deterministic = True

    async def solve(self, sandbox: Any, instance: dict[str, Any], *, model: str | None) -> AgentResult:
        """Do nothing."""
        return AgentResult()


def _some(dataset: Dataset, case: DatasetCase, count: int | None = None) -> list[dict[str, Any]]:
    found = list(itertools.islice(dataset.instances(), count or case.scan))
    expect(found, "it has no instances")
    return found


@DATASET.add()
async def ids_are_unique(dataset: Dataset, case: DatasetCase) -> None:
    """Every instance is a dict with a unique, non-empty string under `instance_id`."""
    seen: set[str] = set()
    for instance in _some(dataset, case):
        expect(isinstance(instance, dict), f"an instance is a {type(instance).__name__}, not a dict")
        name = instance.get("instance_id")
        expect(isinstance(name, str) and name, f"an instance_id is {name!r}")
        expect(name not in seen, f"two instances have the id {name!r}")
        seen.add(str(name))


@DATASET.add()
async def instances_come_again(dataset: Dataset, case: DatasetCase) -> None:
    """Calling `instances` again gives the same instances in the same order, so that a run can be resumed."""
    first, second = ([i["instance_id"] for i in _some(dataset, case)] for _ in range(2))
    expect(first == second, "the second reading gives other ids or another order")


@DATASET.add()
async def images_are_named_or_built(dataset: Dataset, case: DatasetCase) -> None:
    """`image` gives a string or an `ImageBuild` whose Dockerfile exists."""
    for instance in _some(dataset, case):
        image = dataset.image(instance)
        expect(isinstance(image, str | ImageBuild), f"{instance['instance_id']}: image is a {type(image).__name__}")
        if isinstance(image, ImageBuild):
            expect(image.dockerfile_path.is_file(), f"{instance['instance_id']}: no file {image.dockerfile_path}")


@DATASET.add()
async def tasks_are_worded(dataset: Dataset, case: DatasetCase) -> None:
    """Every instance has a task to give to the agent."""
    for instance in _some(dataset, case):
        if isinstance(dataset, HasInstruction):
            text: object = dataset.instruction(instance)
        else:
            text = instance.get("instruction", instance.get("problem_statement"))
        expect(isinstance(text, str) and text.strip(), f"{instance['instance_id']}: its instruction is {text!r}")


@DATASET.add()
async def optional_parts_are_well_typed(dataset: Dataset, case: DatasetCase) -> None:
    """Its optional parts, such as `sandbox_config`, `more_sandboxes`, `limits` and `artifacts`, give valid values."""
    if isinstance(dataset, ChoosesAnswer):
        expect(dataset.answer in get_args(Answer), f"answer is {dataset.answer!r}")
    for instance in _some(dataset, case):
        name = instance["instance_id"]
        if isinstance(dataset, ConfiguresSandbox):
            config = dataset.sandbox_config(instance)
            expect(isinstance(config, SandboxConfig), f"{name}: sandbox_config gives a {type(config).__name__}")
        if isinstance(dataset, NeedsMoreSandboxes):
            more: tuple[object, ...] = tuple(dataset.more_sandboxes(instance))
            odd = [type(one).__name__ for one in more if not isinstance(one, SandboxConfig)]
            expect(not odd, f"{name}: more_sandboxes gives {', '.join(odd)}")
        if isinstance(dataset, ChoosesScoring):
            scoring = dataset.scoring(instance)
            expect(scoring in get_args(Scoring), f"{name}: scoring is {scoring!r}")
        if isinstance(dataset, HasLimits):
            limits = dataset.limits(instance)
            expect(isinstance(limits, Limits), f"{name}: limits gives a {type(limits).__name__}")
        if isinstance(dataset, HasArtifacts):
            relative = [path for path in dataset.artifacts(instance) if not path.startswith("/")]
            expect(not relative, f"{name}: artifacts that are no absolute paths: {relative}")


@DATASET.add()
async def content_hashes_are_stable(dataset: Dataset, case: DatasetCase) -> None:
    """`content_hash` gives the same sha256 in hex each time."""
    if not isinstance(dataset, HasContentHash):
        not_applicable("it has no content_hash")
    for instance in _some(dataset, case):
        digest = dataset.content_hash(instance)
        expect(re.fullmatch(r"[0-9a-f]{64}", digest), f"{instance['instance_id']}: {digest!r} is no sha256 in hex")
        expect(dataset.content_hash(instance) == digest, f"{instance['instance_id']}: the hash changes")


@DATASET.add()
async def doing_nothing_is_measured_and_fails(dataset: Dataset, case: DatasetCase) -> None:
    """An agent that changes nothing is measured, and does not resolve an instance."""
    for rollout in await _rollouts(dataset, Nothing(), case):
        _expect_measured(rollout)
        expect(not rollout.resolved, f"{rollout.instance_id}: doing nothing resolves it")


@DATASET.add()
async def the_reference_passes(dataset: Dataset, case: DatasetCase) -> None:
    """The reference answer of an instance resolves it."""
    if not isinstance(dataset, HasReference):
        not_applicable("it has no reference answers")
    agent = Reference(dataset)
    for rollout in await _rollouts(dataset, agent, case):
        if agent.absent is not None:
            not_applicable(f"{rollout.instance_id}: {agent.absent}")
        _expect_measured(rollout)
        expect(rollout.resolved, f"{rollout.instance_id}: the reference got {rollout.score}")


async def _rollouts(dataset: Dataset, agent: Any, case: DatasetCase) -> list[Rollout]:
    from agentix.runner import rollout_one

    if case.provider is None:
        not_applicable("the case has no provider to run instances on")
    return [
        await rollout_one(instance, dataset=dataset, agent=agent, provider=case.provider)
        for instance in _some(dataset, case, case.instances)
    ]


def _expect_measured(rollout: Rollout) -> None:
    reason = rollout.error or rollout.skipped
    expect(rollout.reward is not None, f"{rollout.instance_id} has no reward: {reason}")
    if rollout.score is not None:
        metrics = rollout.score.get("metrics", {})
        bad = {k: v for k, v in metrics.items() if not isinstance(v, int | float) or not math.isfinite(v)}
        expect(not bad, f"{rollout.instance_id}: these metrics are no finite numbers: {bad}")
