"""Errors of Python calls in a sandbox: no value came back.

They are not the trial's own: whichever part of a trial makes the call answers for them, as for any exception.
"""

from __future__ import annotations

from agentix.errors.usage import AgentixError


class RemoteCallError(AgentixError):
    """A Python call in a sandbox gave no value."""


class RemoteError(RemoteCallError):
    """The function raised; its exception stays in the sandbox, this is what that says of it.

    Args:
        type: Full name of the exception's class.
        message: Its text.
        traceback: As Python prints it, also shown below this error's own.
    """

    def __init__(self, type: str, message: str, traceback: str = "", *, hint: str | None = None) -> None:
        super().__init__(f"{type}: {message}" if message else type, hint=hint)
        self.type = type
        self.remote_message = message
        self.traceback = traceback
        if traceback:
            self.add_note(f"In the sandbox:\n{traceback.rstrip()}")


class ResultError(RemoteCallError):
    """What the function returned is no plain data, too large, or not what its return annotation says."""


class WorkerExited(RemoteCallError):
    """The process that ran the function ended before it returned.

    Args:
        message: What happened.
        signal: Name of the signal that ended it, such as `SIGSEGV`.
        exit_code: Exit code, where it ended by itself.
        oom: Whether it was killed for memory.
    """

    def __init__(
        self,
        message: str,
        *,
        signal: str | None = None,
        exit_code: int | None = None,
        oom: bool = False,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.signal = signal
        self.exit_code = exit_code
        self.oom = oom
