"""Errors that end one trial and carry its failure code."""

from __future__ import annotations

from typing import ClassVar

from agentix.errors.usage import AgentixError, UsageError

# The codes are plain strings here: errors stand below models, which hold the enumeration.


class TrialError(AgentixError):
    """One trial failed.

    Args:
        message: What is wrong and where.
        detail: A short fixed word such as `oom` or `image_pull`.
        hint: What to do about it.
    """

    code: ClassVar[str] = "HOST_ERROR"
    default_detail: ClassVar[str | None] = None
    boundary: str | None = None
    """The part of the trial that it was attributed to, once the runner has done so."""
    plugin: str | None = None
    """The plugin whose code failed, likewise."""

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.detail = detail or self.default_detail


class EnvFailed(TrialError):
    """The case or the machine is not fit: image, set-up, agent install, a missing key."""

    code = "ENV_FAILED"


class Unsupported(EnvFailed):
    """The provider cannot do what the config asks for; the message names both."""

    default_detail = "unsupported"


class BundleError(EnvFailed, UsageError):
    """A bundle is unknown, damaged, of another machine, or cannot be built; before a run it is a usage error."""

    default_detail = "bundle"


class HostError(TrialError):
    """This machine, or the way to the sandbox, failed."""


class SandboxGone(HostError):
    """The sandbox died, was removed or was lost; raised in every pending call.

    Args:
        message: What happened.
        exit_code: Exit code of the sandbox's first process, where known.
        oom: Whether it was killed for memory.
        log_tail: The last lines it logged.
    """

    default_detail = "sandbox_gone"

    def __init__(
        self,
        message: str,
        *,
        exit_code: int | None = None,
        oom: bool = False,
        log_tail: str = "",
        hint: str | None = None,
    ) -> None:
        super().__init__(message, detail="oom" if oom else None, hint=hint)
        self.exit_code = exit_code
        self.oom = oom
        self.log_tail = log_tail


class WireError(HostError):
    """The sandbox sent something that is not the protocol."""

    default_detail = "wire"


class PatchError(HostError):
    """A patch could not be captured, verified or applied; this is never read as an empty patch."""

    default_detail = "patch_capture"


class AgentFailed(TrialError):
    """The agent failed."""

    code = "AGENT_FAILED"


class AgentTimeout(TrialError):
    """The agent reached its time limit."""

    code = "AGENT_TIMEOUT"


class LimitReached(TrialError):
    """The agent reached a limit; `limit` is its name, such as `max_tool_calls`."""

    code = "AGENT_LIMIT"

    def __init__(self, limit: str, *, message: str | None = None) -> None:
        super().__init__(message or f"the limit {limit} was reached", detail=limit)
        self.limit = limit


class VerifierError(TrialError):
    """The scorer crashed, took too long, or gave no valid reward."""

    code = "VERIFIER_ERROR"
