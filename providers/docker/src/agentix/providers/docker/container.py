"""The container that a sandbox is, as the engine's API takes it."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from agentix.api import PAUSE_ARGS, SERVER_ARGS, Capability, RuntimeMount, SandboxConfig, Unsupported
from agentix.providers.docker.config import DockerConfig
from agentix.providers.docker.facts import Facts
from agentix.providers.docker.image import Image

RUNTIME = "/agentix/runtime"
KEPT_CAPABILITIES = ("SETUID", "SETGID", "KILL", "CHOWN", "DAC_OVERRIDE", "FOWNER")
"""What switching users, ending processes and handling files need."""

_PERIOD_US = 100_000
_SIZED_DRIVERS = frozenset({"btrfs", "devicemapper", "zfs", "windowsfilter"})
_GPU_RUNTIMES = frozenset({"nvidia"})
_OPEN_DIRS = ("/tmp", "/run", "/var/tmp")  # noqa: S108
_LOADER_VARIABLES = ("LD_AUDIT", "LD_PRELOAD")

ALWAYS = frozenset(
    {
        Capability.ISOLATION,
        Capability.IMAGES,
        Capability.IMAGE_BUILD,
        Capability.USERS,
        Capability.NETWORK_PUBLIC,
        Capability.MEMORY_LIMIT,
        Capability.CPU_LIMIT,
        Capability.PIDS_LIMIT,
        Capability.LISTING,
        Capability.COMPOSE,
    }
)
"""What every engine can do, as far as is known before it is asked."""


def abilities(facts: Facts | None) -> frozenset[Capability]:
    """What the engine can do."""
    if facts is None:
        return ALWAYS
    lacking = {
        Capability({"memory_mb": "memory_limit", "cpus": "cpu_limit", "pids": "pids_limit"}[name])
        for name in facts.cannot_limit
    }
    able = set(ALWAYS) - lacking
    if not facts.podman:
        able.add(Capability.NETWORK_SWITCH)
    if limits_storage(facts):
        able.add(Capability.STORAGE_LIMIT)
    if has_gpus(facts):
        able.add(Capability.GPUS)
    return frozenset(able)


def limits_storage(facts: Facts) -> bool:
    """Whether the storage driver may give a container's files a size (dockerd reference, storage driver options)."""
    return facts.storage_driver in _SIZED_DRIVERS or (facts.storage_driver, facts.backing) == ("overlay2", "xfs")


def has_gpus(facts: Facts) -> bool:
    """Whether the engine hands GPUs on."""
    return bool(_GPU_RUNTIMES & facts.runtimes)


def refuse(config: SandboxConfig, *, options: DockerConfig, facts: Facts) -> None:
    """Refuse by name what this engine cannot do.

    Raises:
        Unsupported: The config asks for it.
    """
    if config.network == "allowlist":
        raise Unsupported(
            "provider docker cannot enforce network 'allowlist': an engine's networks know no host names",
            hint="use network=public or network=none",
        )
    if config.allowed_hosts:
        raise Unsupported(f"provider docker honours allowed_hosts only with an allowlist, not with {config.network}")
    for name in sorted(facts.cannot_limit):
        if getattr(config, name) is not None:
            raise Unsupported(
                f"this engine does not enforce {name}: its control groups cannot",
                hint="rootless engines need cgroup v2 with that controller delegated; or leave the limit out",
            )
    if config.storage_mb is not None and options.storage == "enforce" and not limits_storage(facts):
        on = f" on {facts.backing}" if facts.backing else ""
        raise Unsupported(
            f"this engine's storage driver {facts.storage_driver}{on} cannot limit storage_mb",
            hint="use `--provider-opt storage=ignore` to run without that limit, or overlay2 on xfs with pquota",
        )
    if config.gpus and not has_gpus(facts):
        raise Unsupported(f"this engine has no runtime for gpus, and the task asks for {config.gpus}")
    for mount in config.mounts:
        if not mount.target.startswith("/") or posixpath.normpath(mount.target) in ("/", "/agentix", RUNTIME):
            raise Unsupported(f"a mount cannot have the target {mount.target!r}")


def notes(config: SandboxConfig, *, facts: Facts) -> tuple[str, ...]:
    """What the user should know once per run."""
    if config.storage_mb is not None and not limits_storage(facts):
        driver = facts.storage_driver
        return (f"docker: the storage driver {driver} cannot limit storage_mb; sandboxes run without that limit",)
    return ()


def home_of(image: Image) -> str:
    """The image's own directory, absolute."""
    return posixpath.normpath(posixpath.join("/", image.workdir))


def workdir_of(config: SandboxConfig, image: Image) -> str:
    """Where commands start, which the engine makes where it does not exist."""
    return posixpath.normpath(posixpath.join(home_of(image), config.workdir or ""))


def creation(
    config: SandboxConfig,
    image: Image,
    *,
    options: DockerConfig,
    facts: Facts,
    runtime: RuntimeMount,
    own_mounts: Sequence[Mapping[str, Any]],
    labels: Mapping[str, str],
) -> dict[str, Any]:
    """The body of the request that creates the container."""
    workdir = workdir_of(config, image)
    own = (home_of(image), *image.entrypoint, *runtime.argv, *PAUSE_ARGS) if image.entrypoint else ()
    return {
        "Image": image.id,
        "Entrypoint": [*runtime.argv, *SERVER_ARGS, "--stdio", *own],
        "Cmd": [],
        "User": "0:0",
        "WorkingDir": workdir,
        # The image's variables are for its programs; the runtime's own loader must not follow them.
        "Env": [f"{name}=" for name in _LOADER_VARIABLES if name in image.env],
        "Labels": dict(labels),
        "Healthcheck": {"Test": ["NONE"]},
        "OpenStdin": True,
        # Whoever is inside may send the first process any other signal, so it heeds none.
        "StopSignal": "SIGKILL",
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "HostConfig": _host_config(config, options=options, facts=facts, own_mounts=own_mounts),
    }


def _host_config(
    config: SandboxConfig, *, options: DockerConfig, facts: Facts, own_mounts: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    mounts = [
        {"Type": "bind", "Source": str(mount.source), "Target": mount.target, "ReadOnly": mount.read_only}
        for mount in config.mounts
    ]
    host: dict[str, Any] = {
        "Mounts": [*mounts, *own_mounts],
        "NetworkMode": options.public_network if config.network == "public" else "none",
        # Stdout is the wire: kept in a log it would fill the disk.
        "LogConfig": {"Type": "none", "Config": {}},
        "RestartPolicy": {"Name": "no"},
        "IpcMode": "private",
        "Init": False,
    }
    if "pids" not in facts.cannot_limit:
        host["PidsLimit"] = config.pids or options.pids
    if config.memory_mb is not None:
        host["Memory"] = host["MemorySwap"] = config.memory_mb << 20
    if config.cpus is not None:
        host["CpuPeriod"], host["CpuQuota"] = _PERIOD_US, max(1000, int(config.cpus * _PERIOD_US))
    if config.storage_mb is not None and limits_storage(facts):
        host["StorageOpt"] = {"size": f"{config.storage_mb}M"}
    if config.gpus:
        host["DeviceRequests"] = [{"Driver": "", "Count": config.gpus, "Capabilities": [["gpu"]]}]
    if options.hardened:
        host |= {"CapDrop": ["ALL"], "CapAdd": [*KEPT_CAPABILITIES], "SecurityOpt": ["no-new-privileges"]}
    if options.read_only:
        host |= {"ReadonlyRootfs": True, "Tmpfs": dict.fromkeys(_OPEN_DIRS, "rw,exec,mode=1777")}
    if options.oci_runtime is not None:
        host["Runtime"] = options.oci_runtime
    return host
