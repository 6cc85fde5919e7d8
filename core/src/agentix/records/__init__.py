"""Results on disk: the run directory, its records, resuming and reading it again."""

from agentix.records.content import content_hash
from agentix.records.experiment import AgentRow, CaseUse, CommandUse, ExperimentManifest, StepEnd, StepUse
from agentix.records.experiment_writer import ExperimentWriter
from agentix.records.layout import RUN_NAMES, Layout, check_run_id
from agentix.records.manifest import BundleUse, Manifest, PlannedInstance, PluginUse
from agentix.records.manifests import AnyManifest
from agentix.records.record import Record, StepFailure, UsageRecord, utc_now
from agentix.records.run import Run, load_run
from agentix.records.run_manifest import Host, Session
from agentix.records.state import INFRA, ResumePlan, RunState, parse_retry
from agentix.records.trial_files import TrialFile
from agentix.records.writer import RunWriter

__all__ = [
    "INFRA",
    "RUN_NAMES",
    "AgentRow",
    "AnyManifest",
    "BundleUse",
    "CaseUse",
    "CommandUse",
    "ExperimentManifest",
    "ExperimentWriter",
    "Host",
    "Layout",
    "Manifest",
    "PlannedInstance",
    "PluginUse",
    "Record",
    "ResumePlan",
    "Run",
    "RunState",
    "RunWriter",
    "Session",
    "StepEnd",
    "StepFailure",
    "StepUse",
    "TrialFile",
    "UsageRecord",
    "check_run_id",
    "content_hash",
    "load_run",
    "parse_retry",
    "utc_now",
]
