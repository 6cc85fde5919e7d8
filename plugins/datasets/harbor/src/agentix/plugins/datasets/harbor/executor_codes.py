"""Whose failure an exception of the Harbor CLI was.

The names are those that Harbor writes into `exception_info.exception_type` of a result; what it raises differs
between its versions, so names are recognised by their beginning where a family of them has one.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentix.api import Boundary, FailureCode

_AGENT = frozenset(
    {
        "NonZeroAgentExitCodeError",
        "AgentSafetyRefusalError",
        "ContentPolicyViolationError",
        "ContextWindowExceededError",
        "ContextLengthExceededError",
        "OutputTokenExceededError",
        "OutputLengthExceededError",
    }
)
_VERIFIER = frozenset({"RegradeError", "AddTestsDirError", "DownloadVerifierDirError"})
_MODEL_SETUP = frozenset({"ApiProviderResourceNotFoundError", "ApiKeyRejectedError", "APIResponseValidationError"})
"""Called like trouble on the way to a model, and are what a retry does not change."""
_MODEL = frozenset({"RateLimitError", "InternalServerError", "ServiceUnavailableError", "RuntimeRequestError"})
_MEMORY = frozenset({"SandboxLikelyOutOfMemoryError", "MemoryLimitExceededError"})
_DETAILS: Mapping[str, str] = {
    "AgentSetupTimeoutError": "agent_setup",
    "EnvironmentStartTimeoutError": "build_timeout",
    "SandboxBuildFailedError": "image_build",
    "HealthcheckError": "healthcheck",
    "AgentAuthenticationError": "missing_key",
    "AuthenticationError": "missing_key",
    "ApiKeyRejectedError": "missing_key",
    "MissingModelCredentialError": "missing_key",
    "ModelNotFoundError": "model_api",
    "ApiProviderResourceNotFoundError": "model_api",
    "VerifierTimeoutError": "score_timeout",
    "RewardFileNotFoundError": "no_reward",
    "RewardFileEmptyError": "no_reward",
    "VerifierOutputParseError": "no_reward",
    "ContextWindowExceededError": "context_length",
    "ContextLengthExceededError": "context_length",
    "OutputTokenExceededError": "output_length",
    "OutputLengthExceededError": "output_length",
    "AgentSafetyRefusalError": "refusal",
    "ContentPolicyViolationError": "refusal",
}


def code_of(exception: str, *, message: str = "") -> FailureCode:
    """The failure code of an exception.

    Args:
        exception: The name of its type.
        message: What it says.
    """
    if exception == "AgentTimeoutError":
        return FailureCode.AGENT_TIMEOUT
    if exception in _AGENT:
        return FailureCode.AGENT_FAILED
    if exception in _VERIFIER or exception.startswith(("Verifier", "RewardFile")):
        return FailureCode.VERIFIER_ERROR
    # What the tests wrote into reward.json, which Harbor finds out only when it puts it into its result.
    if exception == "ValidationError" and "VerifierResult" in message:
        return FailureCode.VERIFIER_ERROR
    if exception in _MODEL_SETUP:
        return FailureCode.ENV_FAILED
    if exception in _MODEL or exception in _MEMORY or exception.startswith(("Api", "API", "Network")):
        return FailureCode.HOST_ERROR
    return FailureCode.ENV_FAILED


def detail_of(exception: str) -> str | None:
    """The short word for an exception, where there is one."""
    if exception in _MEMORY:
        return "oom"
    if exception in _DETAILS:
        return _DETAILS[exception]
    return "model_api" if code_of(exception) is FailureCode.HOST_ERROR else None


def boundary_of(code: FailureCode) -> Boundary:
    """The part of a trial that a failure of this code is attributed to."""
    if code.is_agents:
        return "agent"
    return {FailureCode.VERIFIER_ERROR: "scorer", FailureCode.ENV_FAILED: "sandbox"}.get(code, "host")  # type: ignore[return-value]
