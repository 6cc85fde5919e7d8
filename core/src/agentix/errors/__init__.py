"""The exceptions of agentix.

    AgentixError
    ├── UsageError                  what the user gave is wrong; nothing was run
    │   ├── ConfigError             a value at a named place (an option, a file and line) is not valid
    │   ├── PluginError
    │   │   ├── PluginNotFound      no installed plugin has that name
    │   │   ├── PluginAmbiguous     several have it
    │   │   ├── PluginBroken        it is installed, but cannot be loaded
    │   │   └── PluginIncompatible  it was built for another version of agentix
    │   ├── DatasetError            a dataset's own files are malformed
    │   └── RunError
    │       ├── RunLocked           another process writes to that run
    │       ├── RunChanged          a run is resumed with another configuration
    │       └── RecordsDamaged      a results file is damaged other than by a torn last line
    ├── RemoteCallError             a Python call in a sandbox gave no value
    │   ├── RemoteError             the function raised
    │   ├── ResultError             what it returned cannot be sent, is too large, or is not what was promised
    │   └── WorkerExited            its process ended
    ├── ShipError                   something was not shipped; the same may work later
    │   └── ShipRefused             and will not before somebody changes something
    ├── TrajectoryError             a trajectory is not in the ATIF format
    └── TrialError                  one trial failed, for the reason that its code tells
        ├── EnvFailed               ENV_FAILED: the image, the set-up, something the task needs
        │   ├── BundleError         a bundle is unknown, damaged or unfit (a UsageError too)
        │   └── Unsupported         the provider cannot do what the config asks for
        ├── HostError               HOST_ERROR: this machine or the way to the sandbox
        │   ├── SandboxGone         the sandbox died, was removed or was lost
        │   ├── WireError           the sandbox sent something that is not the protocol
        │   └── PatchError          a patch could not be captured, verified or applied
        ├── AgentFailed             AGENT_FAILED
        ├── AgentTimeout            AGENT_TIMEOUT
        ├── LimitReached            AGENT_LIMIT: tool calls, turns, tokens or cost
        └── VerifierError           VERIFIER_ERROR: the scorer crashed or gave no valid reward

Cancellation is none of these: it is the async library's own and is never caught for good.
"""

from agentix.errors.remote import RemoteCallError, RemoteError, ResultError, WorkerExited
from agentix.errors.trial import (
    AgentFailed,
    AgentTimeout,
    BundleError,
    EnvFailed,
    HostError,
    LimitReached,
    PatchError,
    SandboxGone,
    TrialError,
    Unsupported,
    VerifierError,
    WireError,
)
from agentix.errors.usage import (
    AgentixError,
    ConfigError,
    DatasetError,
    PluginAmbiguous,
    PluginBroken,
    PluginError,
    PluginIncompatible,
    PluginNotFound,
    RecordsDamaged,
    RunChanged,
    RunError,
    RunLocked,
    ShipError,
    ShipRefused,
    TrajectoryError,
    UsageError,
)

__all__ = [
    "AgentFailed",
    "AgentTimeout",
    "AgentixError",
    "BundleError",
    "ConfigError",
    "DatasetError",
    "EnvFailed",
    "HostError",
    "LimitReached",
    "PatchError",
    "PluginAmbiguous",
    "PluginBroken",
    "PluginError",
    "PluginIncompatible",
    "PluginNotFound",
    "RecordsDamaged",
    "RemoteCallError",
    "RemoteError",
    "ResultError",
    "RunChanged",
    "RunError",
    "RunLocked",
    "SandboxGone",
    "ShipError",
    "ShipRefused",
    "TrajectoryError",
    "TrialError",
    "Unsupported",
    "UsageError",
    "VerifierError",
    "WireError",
    "WorkerExited",
]
