"""What went wrong in a sandbox or with this machine, as the exceptions that users of a sandbox see."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agentix.errors import AgentixError, EnvFailed, HostError, SandboxGone, TrialError, WireError


@contextmanager
def naming_exhaustion() -> Iterator[None]:
    """Turn an error about this machine's limit on open files into one that says what to do about it."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        raise HostError(
            f"this machine allows no more open files: {error.strerror}",
            detail="open_files",
            hint="run fewer sandboxes at once, or raise the limit with `ulimit -n`",
        ) from error


@contextmanager
def of_the_sandbox(provider: object) -> Iterator[None]:
    """What is raised inside is a failure of the sandbox, whoever happens to use it at that moment.

    Args:
        provider: Whose code runs inside.
    """
    try:
        yield
    except AgentixError as error:
        _attribute(error, provider)
        raise
    except Exception as error:
        failed = HostError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
        _attribute(failed, provider)
        raise failed from error


def _attribute(error: AgentixError, provider: object) -> None:
    if isinstance(error, TrialError) and error.boundary is None:
        from agentix.registry import label_of

        error.boundary = "sandbox"
        error.plugin = None if isinstance(error, SandboxGone | WireError) else label_of(provider)


def remote_error(report: Any) -> Exception:
    """The exception for what a runtime says went wrong; never one that the sandbox could choose freely."""
    if not isinstance(report, dict):
        return WireError("the sandbox's runtime reported an error that is not one")
    number, message, path = report.get("errno"), report.get("message"), report.get("path")
    if not isinstance(number, int) or not isinstance(message, str) or not isinstance(path, bytes):
        return WireError("the sandbox's runtime reported an error that is not one")
    message = message[:4096]
    if report.get("kind") == "os" and 0 < number < 4096:
        return OSError(number, message, os.fsdecode(path)) if path else OSError(number, message)
    if report.get("kind") == "user":
        return EnvFailed(message, detail="unknown_user")
    return HostError(f"the sandbox's runtime failed: {message}", detail="runtime")


def same_failure(failure: HostError) -> HostError:
    """A failure again, as an exception of its own, since several tasks may raise it at once."""
    if isinstance(failure, SandboxGone):
        copy: HostError = type(failure)(
            failure.message,
            exit_code=failure.exit_code,
            oom=failure.oom,
            log_tail=failure.log_tail,
            hint=failure.hint,
        )
    else:
        copy = type(failure)(failure.message, hint=failure.hint)
    copy.detail = failure.detail
    copy.__cause__ = failure.__cause__
    return copy
