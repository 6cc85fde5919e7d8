"""How a Python call ended, as the worker and the server tell the host: one byte, and a body.

The host takes none of it on trust.
"""

from __future__ import annotations

VALUE = b"V"
"""The result follows, as `plain` writes it."""
SENT = b"D"
"""The result was sent as data, or the iteration is over."""
RAISED = b"E"
"""The function raised, or could not be loaded: a value with `type`, `message`, `traceback` and `loading`."""
UNFIT = b"L"
"""The result cannot be lowered: a value with `path`, `type` and `reason`."""
LARGE = b"S"
"""The result is larger than allowed."""
EXITED = b"X"
"""Its process ended: a value with `status` as of waitpid, `oom` and `why`."""
ABSENT = b"A"
"""There is no such worker any more; nothing was run."""
CANCELLED = b"C"
"""It was cancelled."""

INLINE = 1 << 15
"""Up to so many bytes of arguments or result travel with the call or its answer, without frames of their own."""

LOG = 3
"""The channel of log records, beside `wire.STDOUT` and `wire.STDERR`, in the call that stands for the worker."""
