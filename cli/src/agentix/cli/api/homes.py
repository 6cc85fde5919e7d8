"""Which module each name of the facade comes from."""

from __future__ import annotations

HOMES = {
    "agentix.cli.beside": (
        "close_provider",
        "keep_progress",
    ),
    "agentix.cli.budget": ("TrialQueue",),
    "agentix.cli.ending": (
        "RunEnding",
        "missing",
        "print_json",
    ),
    "agentix.cli.fingerprint": ("plugin_use",),
    "agentix.cli.guard": (
        "Guard",
        "Shows",
    ),
    "agentix.cli.limits": (
        "raise_open_files",
        "width_for",
    ),
    "agentix.cli.locate": ("locate",),
    "agentix.cli.output": (
        "Output",
        "printable",
    ),
    "agentix.cli.plan": ("default_provider",),
    "agentix.cli.plugin_text": ("option_rows",),
    "agentix.cli.preflight": ("provider_problem",),
    "agentix.cli.redrawn": (
        "Redrawn",
        "trial_line",
    ),
    "agentix.cli.request": ("PluginRequest",),
    "agentix.cli.rescored_dataset": (
        "NoAgent",
        "RescoredDataset",
    ),
    "agentix.cli.runlog": (
        "log",
        "logging_to",
    ),
    "agentix.cli.signals": ("SignalLatch",),
    "agentix.cli.table": ("table",),
    "agentix.cli.terms": ("WORDS",),
    "agentix.cli.values": (
        "finite",
        "parse_pairs",
    ),
    "agentix.cli.wording": (
        "codes",
        "listed",
        "number",
        "plural",
        "reason",
        "result",
        "seconds",
        "short",
        "size",
        "so_far",
        "totals",
    ),
    "agentix.records": (
        "INFRA",
        "AgentRow",
        "CaseUse",
        "CommandUse",
        "ExperimentManifest",
        "ExperimentWriter",
        "Layout",
        "PluginUse",
        "ResumePlan",
        "RunState",
        "Session",
        "StepEnd",
        "StepFailure",
        "StepUse",
        "check_run_id",
        "parse_retry",
        "utc_now",
    ),
    "agentix.records.lock": ("read_owner",),
    "agentix.records.trial_files": (
        "EARLIER_DIR",
        "PATCH_FILE",
        "TRAJECTORY_FILE",
        "TRIAL_FILE",
        "read_trial_file",
    ),
    "agentix.registry": (
        "describe",
        "nearest",
    ),
    "agentix.runner": (
        "RUN_LABEL",
        "TRIAL_LABEL",
    ),
    "agentix.runner.breaker": ("Breaker",),
    "agentix.runner.earlier": ("find_earlier",),
    "agentix.stats": ("Summary",),
}
