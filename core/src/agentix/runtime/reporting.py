"""What the worker answers when a call has ended, as bytes."""

from __future__ import annotations

import os
import traceback

from agentix.runtime import answer, plain, wire
from agentix.runtime.lowering import name_of

_MESSAGE, _TRACEBACK = 1 << 14, 1 << 16
_HERE = os.path.dirname(__file__)


def raised(error: BaseException, *, loading: bool = False) -> bytes:
    """That the function raised.

    Args:
        error: What.
        loading: Whether it, or its arguments, could not even be loaded.
    """
    try:
        message = str(error)
    except Exception as again:
        message = f"its text cannot be had: {type(again).__name__}"
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_HERE):
        trace = trace.tb_next
    try:
        lines = "".join(traceback.format_exception(type(error), error, trace))
    except Exception as again:
        lines = f"its traceback cannot be had: {type(again).__name__}"
    return answer.RAISED + wire.encode(
        {
            "type": _plain(name_of(type(error)))[:1000],
            "message": _plain(message)[:_MESSAGE],
            "traceback": _plain(lines)[-_TRACEBACK:],
            "loading": loading,
        }
    )


def refused(error: Exception) -> bytes:
    """That the result cannot be sent."""
    if isinstance(error, plain.CannotLower):
        told = {"path": error.path[:1000], "type": error.type[:1000], "reason": error.reason[:4000]}
        return answer.UNFIT + wire.encode({key: _plain(text) for key, text in told.items()})
    return answer.LARGE


def _plain(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
