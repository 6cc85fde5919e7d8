"""The sandboxes that a dataset wants for its instances, and the images that those take."""

from __future__ import annotations

from typing import Any

from agentix.interfaces import ConfiguresSandbox, Dataset, NeedsMoreSandboxes
from agentix.models import SandboxConfig


class WantedSandboxes:
    """Asks a dataset; which optional methods it has is found out once.

    Args:
        dataset: The dataset.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._configures = dataset if isinstance(dataset, ConfiguresSandbox) else None
        self._needs_more = dataset if isinstance(dataset, NeedsMoreSandboxes) else None

    def first(self, instance: dict[str, Any]) -> SandboxConfig:
        """The agent's sandbox, with its image."""
        config = SandboxConfig() if self._configures is None else self._configures.sandbox_config(instance)
        if config.image is None:
            image = self._dataset.image(instance)
            if image:
                config = config.model_copy(update={"image": image})
        return config

    def all(self, instance: dict[str, Any]) -> tuple[SandboxConfig, ...]:
        """All of them, the agent's first."""
        more = () if self._needs_more is None else self._needs_more.more_sandboxes(instance)
        return (self.first(instance), *more)


def image_key(config: SandboxConfig) -> str | None:
    """What tells the images of one sandbox from another's; `None` where it needs none."""
    if config.image is None and config.compose is None:
        return None
    return config.model_dump_json(include={"image", "platform", "compose"})
