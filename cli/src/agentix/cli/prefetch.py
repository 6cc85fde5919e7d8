"""Gets the images of a dataset's instances ahead of a run."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anyio

from agentix.cli.output import Output
from agentix.errors import AgentixError, TrialError
from agentix.interfaces import Dataset, Prefetches
from agentix.models import ImageBuild, SandboxConfig
from agentix.runner.wanted import WantedSandboxes, image_key


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One image, or several of one compose file, that instances need."""

    what: str
    config: SandboxConfig


def distinct(
    dataset: Dataset, instances: Sequence[dict[str, Any]], *, built_only: bool
) -> tuple[list[Wanted], list[str]]:
    """What the instances need, each once, in their order, and which of them cannot say what they need.

    Args:
        dataset: Where they come from.
        instances: The instances.
        built_only: Leave out what is an image by name.
    """
    found: dict[str, Wanted] = {}
    failed: list[str] = []
    sandboxes = WantedSandboxes(dataset)
    for instance in instances:
        try:
            configs = sandboxes.all(instance)
        except TrialError as error:
            failed.append(f"{instance['instance_id']}: {error}")
            continue
        for config in configs:
            key = image_key(config)
            if key is None:
                continue
            if built_only and config.compose is None and not isinstance(config.image, ImageBuild):
                continue
            if key not in found:
                found[key] = Wanted(what=_what(config, instance), config=config)
    return list(found.values()), failed


async def have(provider: Prefetches, wanted: Sequence[Wanted], *, n_concurrent: int, output: Output) -> int:
    """Get them, and tell of each.

    Args:
        provider: Whose engine is to have them.
        wanted: What to get.
        n_concurrent: How many at a time.
        output: Where to tell.

    Returns:
        How many could not be had.
    """
    failed = 0
    width = anyio.CapacityLimiter(n_concurrent)

    async def get(one: Wanted) -> None:
        nonlocal failed
        async with width:
            try:
                await provider.prefetch(one.config)
            except AgentixError as error:
                failed += 1
                output.line(f"FAILED  {one.what}: {error}")
            else:
                output.line(f"ok      {one.what}")

    with _told(Output.stderr()):
        async with anyio.create_task_group() as group:
            for one in wanted:
                group.start_soon(get, one)
    return failed


class _Lines(logging.Handler):
    def __init__(self, output: Output) -> None:
        super().__init__(logging.INFO)
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        self._output.line(record.getMessage())


@contextmanager
def _told(output: Output) -> Iterator[None]:
    """Show what providers log of their progress."""
    logger, handler = logging.getLogger("agentix.providers"), _Lines(output)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)


def _what(config: SandboxConfig, instance: dict[str, Any]) -> str:
    if config.compose is not None:
        return f"{instance['instance_id']}: {config.compose.files[0]}"
    if isinstance(config.image, ImageBuild):
        return str(config.image.dockerfile_path)
    return str(config.image)
