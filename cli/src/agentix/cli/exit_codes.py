"""What the exit code of a command tells."""

from __future__ import annotations

OK = 0
"""Finished, and no trial is unmeasured for an ENV, HOST or VERIFIER reason."""
FAILED = 1
"""Stopped early, a step failed, a sandbox could not be removed, a result was lost, or below `--fail-under`."""
USAGE = 2
"""What the user gave is wrong; nothing was run."""
UNMEASURED = 3
"""Finished, but some trials are unmeasured for an ENV, HOST or VERIFIER reason."""

EPILOG = """Exit codes: 0 finished, and no trial is unmeasured for an ENV, HOST or VERIFIER reason; 1 stopped early,
a step failed, a sandbox could not be removed, a result was lost, or the mean is below --fail-under; 2 usage; 3
finished, but some trials are unmeasured for such a reason (--allow-failures makes it 0); 129 SIGHUP; 130 SIGINT; 143
SIGTERM."""


def of_signal(number: int) -> int:
    """The code of a command that a signal ended."""
    return 128 + number
