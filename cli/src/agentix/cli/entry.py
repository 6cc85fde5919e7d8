"""Runs one command and turns whatever happens into an exit code."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import Any

import typer

from agentix.cli import exit_codes
from agentix.cli.delivery import Delivery
from agentix.cli.output import Output
from agentix.errors import AgentixError, UsageError


def run_command(command: Callable[[], Any], arguments: Sequence[str], *, program: str) -> int:
    """Run a command.

    Args:
        command: Imports the command.
        arguments: Those of the command line.
        program: The name in usage messages.

    Returns:
        The exit code. An error of the user's is one message without a traceback, unless `-v` is given. What the
        command wrote to the standard output and did not arrive is an error too.
    """
    if sys.stdout is None:
        return _run(command, arguments, program=program)
    delivery = Delivery(sys.stdout)
    with redirect_stdout(delivery):
        code = _run(command, arguments, program=program, delivery=delivery)
        Output.stdout().flush()
        if delivery.lost is None:
            return code
        Output.stdout().close()
    Output.stderr().line(f"error: not all of the output could be written: {delivery.lost}")
    return code or exit_codes.FAILED


def _run(
    command: Callable[[], Any], arguments: Sequence[str], *, program: str, delivery: Delivery | None = None
) -> int:
    try:
        code = command().main(list(arguments), prog_name=program, standalone_mode=False)
        return code if isinstance(code, int) else exit_codes.OK
    except AgentixError as error:
        _tell(error, str(error), arguments)
        return exit_codes.USAGE if isinstance(error, UsageError) else exit_codes.FAILED
    except (KeyboardInterrupt, typer.Abort):
        Output.stderr().line("interrupted")
        return exit_codes.of_signal(signal.SIGINT)
    except BrokenPipeError:
        Output.stdout().close()
        return exit_codes.FAILED
    except (PermissionError, NotADirectoryError) as error:
        # Of a path that was given; who gave it need not be known to say what is wrong with it.
        named = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        _tell(error, f"{named}{error.strerror or error}", arguments)
        return exit_codes.USAGE
    except Exception as error:
        if delivery is not None and delivery.lost is not None and isinstance(error, OSError):
            return exit_codes.FAILED  # told at the end
        # typer's own errors; their module differs between its versions.
        show, code = getattr(error, "show", None), getattr(error, "exit_code", None)
        if callable(show) and isinstance(code, int):
            show()
            return code
        _tell(error, f"{type(error).__name__}: {error}\n  This should not happen; -v shows where it did.", arguments)
        return exit_codes.FAILED


def _tell(error: BaseException, text: str, arguments: Sequence[str]) -> None:
    output = Output.stderr()
    if {"-v", "--verbose"} & set(arguments):
        output.line("".join(traceback.format_exception(error)).rstrip())
    output.line(f"error: {text}")
