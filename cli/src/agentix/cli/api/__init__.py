"""What plugins that add commands may import of the command line, besides `agentix.api`.

A command that a plugin adds speaks, counts and ends like ours: the same words for results, the same exit codes, the
same answer to a signal.

The names are looked up when they are used: importing this module costs a command nothing, nor its `--help`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from agentix.cli import exit_codes
from agentix.cli.api.homes import HOMES as _HOMES

if TYPE_CHECKING:
    from agentix.cli.beside import close_provider, keep_progress
    from agentix.cli.budget import TrialQueue
    from agentix.cli.ending import RunEnding, missing, print_json
    from agentix.cli.fingerprint import plugin_use
    from agentix.cli.guard import Guard, Shows
    from agentix.cli.limits import MOST_TRIALS, raise_open_files, width_for
    from agentix.cli.locate import locate
    from agentix.cli.output import Output, printable
    from agentix.cli.plan import default_provider
    from agentix.cli.plugin_text import option_rows
    from agentix.cli.preflight import provider_problem
    from agentix.cli.redrawn import Redrawn, trial_line
    from agentix.cli.request import PluginRequest
    from agentix.cli.rescored_dataset import NoAgent, RescoredDataset
    from agentix.cli.runlog import log, logging_to
    from agentix.cli.signals import SignalLatch
    from agentix.cli.table import table
    from agentix.cli.terms import WORDS
    from agentix.cli.values import finite, parse_pairs
    from agentix.cli.wording import codes, listed, number, plural, reason, result, seconds, short, size, so_far, totals
    from agentix.records import (
        INFRA,
        AgentRow,
        CaseUse,
        CommandUse,
        ExperimentManifest,
        ExperimentWriter,
        Layout,
        PluginUse,
        ResumePlan,
        RunState,
        Session,
        StepEnd,
        StepFailure,
        StepUse,
        check_run_id,
        parse_retry,
        utc_now,
    )
    from agentix.records.lock import read_owner
    from agentix.records.trial_files import EARLIER_DIR, PATCH_FILE, TRAJECTORY_FILE, TRIAL_FILE, read_trial_file
    from agentix.registry import describe, nearest
    from agentix.runner import RUN_LABEL, TRIAL_LABEL
    from agentix.runner.breaker import Breaker
    from agentix.runner.earlier import find_earlier
    from agentix.stats import Summary

__all__ = [
    "EARLIER_DIR",
    "INFRA",
    "MOST_TRIALS",
    "PATCH_FILE",
    "RUN_LABEL",
    "TRAJECTORY_FILE",
    "TRIAL_FILE",
    "TRIAL_LABEL",
    "WORDS",
    "AgentRow",
    "Breaker",
    "CaseUse",
    "CommandUse",
    "ExperimentManifest",
    "ExperimentWriter",
    "Guard",
    "Layout",
    "NoAgent",
    "Output",
    "PluginRequest",
    "PluginUse",
    "Redrawn",
    "RescoredDataset",
    "ResumePlan",
    "RunEnding",
    "RunState",
    "Session",
    "Shows",
    "SignalLatch",
    "StepEnd",
    "StepFailure",
    "StepUse",
    "Summary",
    "TrialQueue",
    "check_run_id",
    "close_provider",
    "codes",
    "default_provider",
    "describe",
    "exit_codes",
    "find_earlier",
    "finite",
    "keep_progress",
    "listed",
    "locate",
    "log",
    "logging_to",
    "missing",
    "nearest",
    "number",
    "option_rows",
    "parse_pairs",
    "parse_retry",
    "plugin_use",
    "plural",
    "print_json",
    "printable",
    "provider_problem",
    "raise_open_files",
    "read_owner",
    "read_trial_file",
    "reason",
    "result",
    "seconds",
    "short",
    "size",
    "so_far",
    "table",
    "totals",
    "trial_line",
    "utc_now",
    "width_for",
]


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            value: object = getattr(import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
