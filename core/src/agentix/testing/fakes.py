"""A dataset, an agent and a provider that are real, cost nothing, and fail where they are told to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentix.errors import EnvFailed
from agentix.interfaces import Answer, RolloutContext, Scoring
from agentix.models import AgentResult, Limits, SandboxConfig
from agentix.testing.fake_provider import FakeProvider
from agentix.testing.scripts import Action, Script

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox

__all__ = ["FakeAgent", "FakeDataset", "FakeProvider", "fake_instance", "right_patch"]

Work = Callable[["Sandbox", dict[str, Any]], Awaitable[AgentResult | None]]


class FakeDataset:
    """Tasks that ask for a given patch. They need no sandbox, unless they are told to use it.

    Args:
        instances: How many instances, or the instances themselves.
        on: What happens at `setup` and `score`.
        ready: What `setup` returns.
        score: What `score` returns, or what makes it from the patch; by default 1 for the right patch, else 0.
        scoring: Where the answer is scored.
        answer: What the answer is.
        config: The sandboxes that it asks for.
        limits: Of every instance.
        artifacts: Paths to keep.
    """

    def __init__(
        self,
        instances: int | Iterable[dict[str, Any]] = 3,
        *,
        on: Mapping[str, Action] | None = None,
        ready: bool = True,
        score: Mapping[str, Any] | Callable[[str], Any] | None = None,
        scoring: Scoring = "fresh",
        answer: Answer = "patch",
        config: SandboxConfig | None = None,
        limits: Limits | None = None,
        artifacts: Sequence[str] = (),
    ) -> None:
        self.answer: Answer = answer
        self._instances = instances
        self._script = Script(on, stages=frozenset({"setup", "score"}))
        self._ready = ready
        self._score = score
        self._scoring: Scoring = scoring
        self._config = config or SandboxConfig()
        self._limits = limits or Limits()
        self._artifacts = artifacts

    def instances(self) -> Iterator[dict[str, Any]]:
        """The instances, made as they are read."""
        if isinstance(self._instances, int):
            return (fake_instance(number) for number in range(1, self._instances + 1))
        return iter(self._instances)

    def image(self, instance: dict[str, Any]) -> str:
        """No image."""
        return ""

    def sandbox_config(self, instance: dict[str, Any]) -> SandboxConfig:
        """The same for every instance."""
        return self._config

    def scoring(self, instance: dict[str, Any]) -> Scoring:
        """The same for every instance."""
        return self._scoring

    def limits(self, instance: dict[str, Any]) -> Limits:
        """The same for every instance."""
        return self._limits

    def artifacts(self, instance: dict[str, Any]) -> Sequence[str]:
        """The same for every instance."""
        return self._artifacts

    async def setup(self, sandbox: Sandbox, instance: dict[str, Any]) -> bool:
        """Do what is scripted, and nothing in the sandbox."""
        await self._script.run("setup", instance["instance_id"], sandbox=sandbox)
        return self._ready

    async def score(self, sandbox: Sandbox, instance: dict[str, Any], patch: str) -> dict[str, Any]:
        """Compare the patch with the right one."""
        await self._script.run("score", instance["instance_id"], sandbox=sandbox)
        if self._score is None:
            return {"reward": float(patch == instance.get("answer"))}
        score: dict[str, Any] = self._score(patch) if callable(self._score) else dict(self._score)
        return score

    async def reference(self, sandbox: Sandbox, instance: dict[str, Any]) -> AgentResult:
        """The right patch."""
        return AgentResult(patch=right_patch(instance))


class FakeAgent:
    """Gives the patch that the instance asks for, or whatever it is told to give.

    Args:
        patch: Its patch; by default the right one.
        result: The whole result, instead of a patch.
        on: What happens at `prepare` and `solve`.
        work: Does something in the sandbox; what it returns is the result, if it returns one.
        spends: Told the context before anything else, to report what the agent uses.
    """

    deterministic = True
    version = "1"

    def __init__(
        self,
        patch: str | None = None,
        *,
        result: AgentResult | None = None,
        on: Mapping[str, Action] | None = None,
        work: Work | None = None,
        spends: Callable[[RolloutContext], None] | None = None,
    ) -> None:
        self._patch = patch
        self._result = result
        self._script = Script(on, stages=frozenset({"prepare", "solve"}))
        self._work = work
        self._spends = spends

    async def prepare(self, sandbox: Sandbox) -> None:
        """Do what is scripted."""
        await self._script.run("prepare", sandbox.id, sandbox=sandbox)

    async def solve(
        self,
        sandbox: Sandbox,
        instance: dict[str, Any],
        *,
        model: str | None,
        context: RolloutContext | None = None,
    ) -> AgentResult:
        """Do what is scripted, work, and give the patch."""
        if self._spends is not None and context is not None:
            self._spends(context)
        if self._work is not None:
            result = await self._work(sandbox, instance)
            if result is not None:
                return result
        await self._script.run("solve", instance["instance_id"], sandbox=sandbox)
        if self._result is not None:
            return self._result
        return AgentResult(patch=right_patch(instance) if self._patch is None else self._patch, exit_code=0)


def fake_instance(number: int) -> dict[str, Any]:
    """An instance whose right answer is a new file."""
    answer = (
        "diff --git a/answer.txt b/answer.txt\nnew file mode 100644\n--- /dev/null\n+++ b/answer.txt\n"
        f"@@ -0,0 +1 @@\n+{number}\n"
    )
    return {
        "instance_id": f"fake-{number}",
        "instruction": f"Write {number} into the file answer.txt.",
        "answer": answer,
    }


def right_patch(instance: Mapping[str, Any]) -> str:
    """The patch that an instance asks for.

    Raises:
        EnvFailed: It does not say.
    """
    answer = instance.get("answer")
    if not isinstance(answer, str):
        raise EnvFailed(f"{instance.get('instance_id')} has no reference answer", detail="no_reference")
    return answer
