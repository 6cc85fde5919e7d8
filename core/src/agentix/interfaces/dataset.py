"""The contract of a dataset: yields instances, prepares a sandbox for one, scores the result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from agentix.models import AgentResult, ImageBuild, Limits, McpServer, SandboxConfig

if TYPE_CHECKING:
    from agentix.interfaces.flow import Flow
    from agentix.sandbox import Sandbox

Scoring = Literal["fresh", "shared"]
"""Whether an answer is scored in a new sandbox or in the one that the agent worked in."""

Answer = Literal["patch", "state"]
"""Whether the answer is a patch or the state that the sandbox was left in."""


@runtime_checkable
class Dataset(Protocol):
    """What every dataset has. What it may have besides is found by `isinstance` with the protocols below."""

    def instances(self) -> Iterable[dict[str, Any]]:
        """Yield the tasks, each with a unique, non-empty string under `instance_id`.

        Read lazily, once a run, in the order that results are numbered in.

        Raises:
            DatasetError: The data is malformed; the message names file and line.
        """
        ...

    def image(self, instance: dict[str, Any]) -> str | ImageBuild:
        """The container image that the instance runs in, by name or to be built; `""` for none."""
        ...

    async def setup(self, sandbox: Sandbox, instance: dict[str, Any]) -> bool:
        """Prepare a new sandbox for the agent.

        Returns:
            False where the task cannot be set up; the rollout is then `skipped="setup_failed"`.

        Raises:
            EnvFailed: The same, with a reason. Any other exception is attributed to the dataset too.
        """
        ...

    async def score(self, sandbox: Sandbox, instance: dict[str, Any], patch: str) -> dict[str, Any]:
        """Grade the answer.

        The caller guarantees a sandbox made from the clean image, unless `scoring` says `shared`.

        Args:
            sandbox: Where to grade.
            instance: The task.
            patch: What the agent changed: any bytes, as UTF-8 with surrogateescape.

        Returns:
            `reward` (a finite number) or `resolved` (a bool) or both: `resolved` defaults to `reward >= 1`,
            `reward` to 1.0 or 0.0. Optionally `metrics` (finite numbers by name) and anything else
            that JSON can hold.

        Raises:
            VerifierError: There is no valid reward. Any other exception is attributed to the scorer too.
        """
        ...


@runtime_checkable
class ConfiguresSandbox(Protocol):
    """A dataset whose sandboxes need more than an image."""

    def sandbox_config(self, instance: dict[str, Any]) -> SandboxConfig:
        """The whole config; the runner adds bundle and labels, and the image where it names none."""
        ...


@runtime_checkable
class NeedsMoreSandboxes(Protocol):
    """A dataset whose flow makes sandboxes besides the agent's that are not like it."""

    def more_sandboxes(self, instance: dict[str, Any]) -> Sequence[SandboxConfig]:
        """What its flow will ask `fresh_sandbox` for, so that those images are had ahead of need too."""
        ...


@runtime_checkable
class ChoosesScoring(Protocol):
    """A dataset that does not always score in a fresh sandbox."""

    def scoring(self, instance: dict[str, Any]) -> Scoring:
        """Where the answer is scored; the default is `fresh`."""
        ...


@runtime_checkable
class ChoosesAnswer(Protocol):
    """A dataset whose answer may be something else than a patch."""

    answer: Answer
    """The default is `patch`. A state is always scored, whatever the agent changed."""


@runtime_checkable
class HasInstruction(Protocol):
    """A dataset that words the task for the agent."""

    def instruction(self, instance: dict[str, Any]) -> str:
        """The task; the default is the instance's `instruction`, else its `problem_statement`."""
        ...


@runtime_checkable
class HasLimits(Protocol):
    """A dataset whose tasks have limits of their own."""

    def limits(self, instance: dict[str, Any]) -> Limits:
        """The task's limits; only the values given explicitly count."""
        ...


@runtime_checkable
class HasMcpServers(Protocol):
    """A dataset whose tasks bring tool servers."""

    def mcp_servers(self, instance: dict[str, Any]) -> Sequence[McpServer]:
        """The servers that the agent may use, as seen from inside its sandbox; they are handed on, not started."""
        ...


@runtime_checkable
class HasSkills(Protocol):
    """A dataset whose environments bring skills: directories with a `SKILL.md` each."""

    def skills_dir(self, instance: dict[str, Any]) -> str | None:
        """Absolute path in the agent's sandbox; the agent decides what becomes of them."""
        ...


@runtime_checkable
class HasContentHash(Protocol):
    """A dataset that can say which bytes an instance consists of."""

    def content_hash(self, instance: dict[str, Any]) -> str:
        """sha256 of the instance's content, in hex."""
        ...


@runtime_checkable
class HasArtifacts(Protocol):
    """A dataset that wants files kept from the agent's sandbox."""

    def artifacts(self, instance: dict[str, Any]) -> Sequence[str]:
        """Absolute paths in the sandbox; a path that does not exist is left out."""
        ...


@runtime_checkable
class HasReference(Protocol):
    """A dataset that knows the right answer; the agent `oracle` plays it."""

    async def reference(self, sandbox: Sandbox, instance: dict[str, Any]) -> AgentResult:
        """Solve the instance in the sandbox.

        Raises:
            EnvFailed: This instance has no reference answer.
        """
        ...


@runtime_checkable
class Drives(Protocol):
    """A dataset whose flow is not set up, solve, score."""

    async def drive(self, flow: Flow, instance: dict[str, Any]) -> dict[str, Any] | None:
        """Compose the flow's steps; limits, timings, attribution and teardown stay with the flow.

        Returns:
            The same as `Dataset.score`, or `None` for the flow's own default, which suits the instance.
        """
        ...
