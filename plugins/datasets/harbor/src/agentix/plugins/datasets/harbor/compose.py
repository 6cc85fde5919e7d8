"""Tasks whose environment is several services."""

from __future__ import annotations

from pathlib import Path

from agentix.api import Compose
from agentix.plugins.datasets.harbor.places import AGENT_LOGS, ARTIFACTS, TESTS, VERIFIER_LOGS
from agentix.plugins.datasets.harbor.schema import MAIN_SERVICE, Environment

_NAMES = ("docker-compose.yaml", "docker-compose.yml")
_CPUS, _MEMORY_MB = 1, 2048


def compose_file(directory: Path) -> Path | None:
    """The compose file of an environment, where it has one."""
    return next((path for name in _NAMES if (path := directory / name).is_file()), None)


def compose(directory: Path, environment: Environment) -> Compose | None:
    """The services of an environment, where it has several.

    Args:
        directory: Where the environment's files lie.
        environment: What task.toml says of it.
    """
    file = compose_file(directory)
    if file is None:
        return None
    logs = {"AGENT": AGENT_LOGS, "VERIFIER": VERIFIER_LOGS, "ARTIFACTS": ARTIFACTS}
    # The variables that the format's own files use. What shows logs on the host is left aside: they are copied.
    variables = {
        "CONTEXT_DIR": str(directory),
        "TEST_DIR": TESTS,
        "CPUS": f"{environment.cpus or _CPUS:g}",
        "MEMORY": f"{environment.memory_mb or _MEMORY_MB}M",
        **{f"ENV_{name}_LOGS_PATH": path for name, path in logs.items() if name != "ARTIFACTS"},
        **{f"HOST_{name}_LOGS_PATH": path for name, path in logs.items() if name != "ARTIFACTS"},
        "ENV_ARTIFACTS_PATH": ARTIFACTS,
        "HOST_ARTIFACTS_PATH": ARTIFACTS,
    }
    if environment.docker_image:
        variables["PREBUILT_IMAGE_NAME"] = environment.docker_image
    return Compose(files=(file,), service=MAIN_SERVICE, variables=variables)
