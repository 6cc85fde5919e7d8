"""What went wrong in a sandbox or with this machine, as the exceptions that users of a sandbox see."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agentix.errors import EnvFailed, HostError, SandboxGone, WireError


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
