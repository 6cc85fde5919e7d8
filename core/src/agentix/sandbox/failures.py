"""Errors that the runtime reports, as the exceptions they are on the host."""

from __future__ import annotations

import os
from typing import Any

from agentix.errors import EnvFailed, HostError, WireError


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
