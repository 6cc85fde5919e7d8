"""Everything that a plugin or a program imports from agentix.

The names are looked up when they are used: importing this module imports nothing else, so that listing
plugins and `--help` cost nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from agentix.api.homes import HOMES as _HOMES
from agentix.api.homes import RENAMED as _RENAMED

if TYPE_CHECKING:
    from agentix.bundle import (
        Bundle,
        MountedBundle,
        base_runtime,
        build_bundle,
        cache_dir,
        export_bundle,
        find_bundle,
        import_bundle,
        list_bundles,
        prune_cache,
        remove_bundle,
        resolve_bundle,
    )
    from agentix.errors import (
        AgentFailed,
        AgentixError,
        AgentTimeout,
        BundleError,
        ConfigError,
        DatasetError,
        EnvFailed,
        HostError,
        LimitReached,
        PatchError,
        PluginAmbiguous,
        PluginBroken,
        PluginError,
        PluginIncompatible,
        PluginNotFound,
        RecordsDamaged,
        RunChanged,
        RunError,
        RunLocked,
        SandboxGone,
        TrajectoryError,
        TrialError,
        Unsupported,
        UsageError,
        VerifierError,
        WireError,
    )
    from agentix.hooks import (
        Hooks,
        hookimpl,
    )
    from agentix.interfaces import (
        Agent,
        Answer,
        ChoosesAnswer,
        ChoosesScoring,
        ConfiguresSandbox,
        Dataset,
        Deterministic,
        Drives,
        Flow,
        HasArtifacts,
        HasContentHash,
        HasInstruction,
        HasLimits,
        HasReference,
        HasVersion,
        Prepares,
        Receipt,
        RolloutContext,
        SandboxProvider,
        Scope,
        Scoring,
        Signal,
        Step,
        StepContext,
        StepOutcome,
        Transport,
    )
    from agentix.models import (
        AgentResult,
        Boundary,
        Capability,
        Ended,
        Event,
        EventKind,
        ExecResult,
        Failure,
        FailureCode,
        ImageBuild,
        Limits,
        Mount,
        Network,
        OutputChunk,
        Phase,
        Rollout,
        RuntimeMount,
        SandboxConfig,
        SandboxInfo,
        TimeoutRule,
        Trial,
        Usage,
        slug,
        trial_id,
    )
    from agentix.patch import (
        AppliedPatch,
        BaseTree,
        CapturedPatch,
        PatchLimits,
        apply_patch,
        capture_base,
    )
    from agentix.records import (
        Record,
        Run,
        RunWriter,
        load_run,
    )
    from agentix.registry import (
        PLUGIN_API,
        PluginInfo,
        load,
        parse_pairs,
    )
    from agentix.registry import (
        label_of as plugin_label,
    )
    from agentix.registry import (
        plugins as list_plugins,
    )
    from agentix.runner import (
        RolloutStream,
        rollout_one,
        run_rollouts,
        run_rollouts_sync,
        stream_rollouts,
        stream_trials,
    )
    from agentix.runtime import (
        PAUSE_ARGS,
        SERVER_ARGS,
    )
    from agentix.sandbox import (
        BaseProvider,
        CommandStream,
        DownloadReport,
        ForwardAddress,
        HostProcessProvider,
        Owner,
        Refusal,
        Sandbox,
        SocketStream,
        Tree,
        TreeEntry,
        Unreleased,
        start_time,
    )
    from agentix.trajectory import (
        AgentInfo,
        FinalMetrics,
        Metrics,
        Observation,
        ObservationResult,
        ToolCall,
        TrajectorySummary,
        check_trajectory,
        iter_steps,
        read_trajectory,
        recover_trajectory,
        summarize_trajectory,
        usage_of,
    )
    from agentix.trajectory import (
        Recorder as TrajectoryRecorder,
    )
    from agentix.trajectory import (
        Step as TrajectoryStep,
    )

__all__ = [
    "PAUSE_ARGS",
    "PLUGIN_API",
    "SERVER_ARGS",
    "Agent",
    "AgentFailed",
    "AgentInfo",
    "AgentResult",
    "AgentTimeout",
    "AgentixError",
    "Answer",
    "AppliedPatch",
    "BaseProvider",
    "BaseTree",
    "Boundary",
    "Bundle",
    "BundleError",
    "Capability",
    "CapturedPatch",
    "ChoosesAnswer",
    "ChoosesScoring",
    "CommandStream",
    "ConfigError",
    "ConfiguresSandbox",
    "Dataset",
    "DatasetError",
    "Deterministic",
    "DownloadReport",
    "Drives",
    "Ended",
    "EnvFailed",
    "Event",
    "EventKind",
    "ExecResult",
    "Failure",
    "FailureCode",
    "FinalMetrics",
    "Flow",
    "ForwardAddress",
    "HasArtifacts",
    "HasContentHash",
    "HasInstruction",
    "HasLimits",
    "HasReference",
    "HasVersion",
    "Hooks",
    "HostError",
    "HostProcessProvider",
    "ImageBuild",
    "LimitReached",
    "Limits",
    "Metrics",
    "Mount",
    "MountedBundle",
    "Network",
    "Observation",
    "ObservationResult",
    "OutputChunk",
    "Owner",
    "PatchError",
    "PatchLimits",
    "Phase",
    "PluginAmbiguous",
    "PluginBroken",
    "PluginError",
    "PluginIncompatible",
    "PluginInfo",
    "PluginNotFound",
    "Prepares",
    "Receipt",
    "Record",
    "RecordsDamaged",
    "Refusal",
    "Rollout",
    "RolloutContext",
    "RolloutStream",
    "Run",
    "RunChanged",
    "RunError",
    "RunLocked",
    "RunWriter",
    "RuntimeMount",
    "Sandbox",
    "SandboxConfig",
    "SandboxGone",
    "SandboxInfo",
    "SandboxProvider",
    "Scope",
    "Scoring",
    "Signal",
    "SocketStream",
    "Step",
    "StepContext",
    "StepOutcome",
    "TimeoutRule",
    "ToolCall",
    "TrajectoryError",
    "TrajectoryRecorder",
    "TrajectoryStep",
    "TrajectorySummary",
    "Transport",
    "Tree",
    "TreeEntry",
    "Trial",
    "TrialError",
    "Unreleased",
    "Unsupported",
    "Usage",
    "UsageError",
    "VerifierError",
    "WireError",
    "apply_patch",
    "base_runtime",
    "build_bundle",
    "cache_dir",
    "capture_base",
    "check_trajectory",
    "export_bundle",
    "find_bundle",
    "hookimpl",
    "import_bundle",
    "iter_steps",
    "list_bundles",
    "list_plugins",
    "load",
    "load_run",
    "parse_pairs",
    "plugin_label",
    "prune_cache",
    "read_trajectory",
    "recover_trajectory",
    "remove_bundle",
    "resolve_bundle",
    "rollout_one",
    "run_rollouts",
    "run_rollouts_sync",
    "slug",
    "start_time",
    "stream_rollouts",
    "stream_trials",
    "summarize_trajectory",
    "trial_id",
    "usage_of",
]


def __getattr__(name: str) -> object:
    module, attribute = _home(name)
    value: object = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _home(name: str) -> tuple[str, str]:
    if name in _RENAMED:
        return _RENAMED[name]
    for module, names in _HOMES.items():
        if name in names:
            return module, name
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
