"""The kinds of plugin, their entry-point groups and what an object of each kind has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["dataset", "agent", "provider", "step", "transport"]
"""The five interfaces, which are chosen one by name."""

AnyKind = Literal["dataset", "agent", "provider", "step", "transport", "cli", "hooks"]
"""Those, and what every installed distribution may add to: commands and lifecycle hooks."""

PLUGIN_API = 1
"""The version of the contracts. A distribution may declare which ones it is written for (see `compatibility`)."""

CORE = "agentix-rollouts-core"


def a(kind: str) -> str:
    """The kind with its article."""
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


@dataclass(frozen=True)
class KindSpec:
    """One kind."""

    group: str
    interface: str
    """Name of the interface in `agentix.api`."""
    methods: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()

    def missing(self, found: object) -> list[str]:
        """What an object lacks to be of this kind; a class may set its attributes when it is instantiated."""
        wanted = self.methods if isinstance(found, type) else (*self.methods, *self.attributes)
        return [name for name in wanted if not hasattr(found, name)]


KINDS: Mapping[AnyKind, KindSpec] = {
    "dataset": KindSpec("agentix.datasets", "Dataset", ("instances", "image", "setup", "score")),
    "agent": KindSpec("agentix.agents", "Agent", ("solve",)),
    "provider": KindSpec(
        "agentix.providers",
        "SandboxProvider",
        ("create", "dial", "delete", "list", "session"),
        ("name", "capabilities"),
    ),
    "step": KindSpec("agentix.steps", "Step", ("run",), ("scopes", "Inputs")),
    "transport": KindSpec("agentix.transports", "Transport", ("ship",), ("scopes", "Inputs", "host_env")),
    "cli": KindSpec("agentix.cli", "a Typer app"),
    "hooks": KindSpec("agentix.hooks", "hook implementations"),
}

# Who takes a path that somebody gives where a plugin is asked for.
TAKES_PATHS: Mapping[AnyKind, str] = {
    "dataset": "task directories go to the dataset harbor, as its option path",
    "agent": "a program goes to the agent command, as its option script",
}

# Plugins that we publish, so that the error for an absent one can say what to install.
PUBLISHED: Mapping[tuple[AnyKind, str], str] = {
    ("provider", "docker"): "agentix-rollouts-docker",
    ("provider", "inline"): "agentix-rollouts-inline",
    ("provider", "local"): "agentix-rollouts-local",
    ("dataset", "harbor"): "agentix-rollouts-harbor",
    ("agent", "oracle"): "agentix-rollouts-baseline",
    ("agent", "nop"): "agentix-rollouts-baseline",
    ("agent", "command"): "agentix-rollouts-baseline",
    ("agent", "python"): "agentix-rollouts-baseline",
    ("step", "admission"): "agentix-rollouts-steps",
    ("step", "archive"): "agentix-rollouts-steps",
    ("step", "check_case"): "agentix-rollouts-harbor",
    ("step", "dataset"): "agentix-rollouts-steps",
    ("step", "guard"): "agentix-rollouts-steps",
    ("step", "local"): "agentix-rollouts-experiments",
    ("step", "redact"): "agentix-rollouts-steps",
    ("step", "report"): "agentix-rollouts-steps",
    ("step", "rollout"): "agentix-rollouts-experiments",
    ("step", "ship"): "agentix-rollouts-experiments",
    ("transport", "github"): "agentix-rollouts-github",
    ("transport", "hf"): "agentix-rollouts-hf",
    ("transport", "rclone"): "agentix-rollouts-rclone",
}

# Names that the documents speak of and that no published distribution has yet.
PLANNED: frozenset[tuple[AnyKind, str]] = frozenset(
    {
        ("provider", "k8s"),
        ("dataset", "swe"),
        ("dataset", "worlds"),
        ("agent", "claude-code"),
    }
)
