"""What a compose file means for a sandbox, and what it may not ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentix.api import EnvFailed, ImageBuild, Mount, SandboxConfig, Unsupported

if TYPE_CHECKING:
    from agentix.providers.docker.image import Image

BESIDE = "agentix.beside"
PROJECT = "com.docker.compose.project"
NO_IMAGE = "agentix-image-of-the-task"
_LOGS = "/logs"

_HONOURED = frozenset(
    {
        *("build", "cap_add", "command", "cpus", "depends_on", "deploy", "entrypoint", "environment", "extra_hosts"),
        *("healthcheck", "hostname", "image", "mem_limit", "networks", "platform", "shm_size", "tmpfs", "user"),
        *("volumes", "working_dir"),
    }
)
_WITHOUT_MEANING = frozenset(
    {
        *("annotations", "attach", "container_name", "env_file", "expose", "init", "labels", "logging"),
        *("ports", "profiles", "pull_policy", "restart", "stdin_open", "stop_grace_period", "stop_signal", "tty"),
    }
)
"""Keys of the sandbox's service that change nothing: nothing listens outside, and the runtime is its first process."""
_BUILD = frozenset({"args", "context", "dockerfile", "labels", "tags", "cache_from", "pull", "no_cache"})
_TOO_MUCH = frozenset({"ALL", "SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO", "SYS_PTRACE", "DAC_READ_SEARCH"})
_HOSTS_OWN = ("network_mode", "pid", "ipc", "uts", "userns_mode", "cgroup")


@dataclass(frozen=True, kw_only=True)
class Project:
    """The services of one sandbox."""

    id: str
    directory: Path
    service: str
    config: SandboxConfig
    """The sandbox's own config, with what its service says."""
    main: Mapping[str, Any]
    """The sandbox's service."""
    services: dict[str, dict[str, Any]]
    """The other ones."""
    networks: dict[str, dict[str, Any]]
    volumes: dict[str, dict[str, Any]]
    rest: Mapping[str, Any] = field(default_factory=dict)
    """What else the file has: secrets and configs."""

    @property
    def awaited(self) -> Mapping[str, str]:
        """What has to be true of each service before the sandbox starts, by its name."""
        own = self.main.get("depends_on") or {}
        said = {name: str((own.get(name) or {}).get("condition")) for name in self.services}
        for name, service in self.services.items():
            checked = bool(service.get("healthcheck")) and not service["healthcheck"].get("disable")
            if said[name] != "service_completed_successfully":
                said[name] = "service_healthy" if checked else "service_started"
        return said

    def changed(self, image: Image) -> Image:
        """The sandbox's image as its service has it."""
        env = {name: str(value) for name, value in _dict(self.main.get("environment")).items() if value is not None}
        return replace(
            image,
            env={**image.env, **env},
            user=self.main.get("user") or image.user,
            workdir=self.main.get("working_dir") or image.workdir,
        )

    def model(self, *, labels: Mapping[str, str]) -> dict[str, Any]:
        """What the plugin is to start; every part carries the labels that it is found by."""
        found = {**labels, BESIDE: self.id}

        def marked(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
            return {name: {**part, "labels": {**_dict(part.get("labels")), **found}} for name, part in parts.items()}

        return {
            **self.rest,
            "name": self.id,
            "services": marked(self.services),
            "networks": marked(self.networks),
            "volumes": marked(self.volumes),
        }


def read_project(project: str, config: SandboxConfig, model: Mapping[str, Any]) -> Project:
    """From the model that the plugin gives.

    Raises:
        EnvFailed: The sandbox's service is not there, or something in it has no place here.
        Unsupported: A service asks for the host's own, or for more than its file's directory.
    """
    compose = config.compose
    assert compose is not None
    directory = compose.files[0].parent
    services = {str(name): dict(service) for name, service in _dict(model.get("services")).items()}
    where = str(compose.files[0])
    if compose.service not in services:
        raise EnvFailed(f"{where}: there is no service {compose.service!r}", detail="compose")
    found = [what for name, service in services.items() for what in _refused(name, service, directory)]
    found += list(_refused_parts(model, directory))
    main = services.pop(compose.service)
    unknown = sorted(key for key, value in main.items() if value and key not in _HONOURED | _WITHOUT_MEANING)
    found += [f"services.{compose.service}.{key}: not there for a sandbox" for key in unknown]
    if found:
        raise Unsupported(f"{where}: compose: " + "; ".join(found))
    for service in services.values():
        # The sandbox starts when they run, and a name or port of the host's could be had once only.
        depends = {name: how for name, how in _dict(service.get("depends_on")).items() if name != compose.service}
        for key in ("container_name", "ports", "depends_on"):
            service.pop(key, None)
        if depends:
            service["depends_on"] = depends
    networks = {str(name): dict(network or {}) for name, network in _dict(model.get("networks")).items()}
    if config.network == "none":
        networks = {name: {**network, "internal": True} for name, network in networks.items()}
    return Project(
        id=project,
        directory=directory,
        service=compose.service,
        config=_merged(config, plain(main)),
        main=plain(main),
        services=services,
        networks=networks,
        volumes={str(name): dict(volume or {}) for name, volume in _dict(model.get("volumes")).items()},
        rest={key: model[key] for key in ("secrets", "configs") if model.get(key)},
    )


def plain(value: Any) -> Any:
    """A value as it is meant: the plugin doubles every dollar, so that it reads its own output."""
    if isinstance(value, str):
        return value.replace("$$", "$")
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def image_of(service: Mapping[str, Any], *, where: str) -> str | ImageBuild:
    """What a service runs.

    Raises:
        EnvFailed: It is built in a way that is not there.
    """
    build = service.get("build")
    if not build:
        return str(service["image"])
    unknown = sorted(key for key, value in build.items() if value and key not in _BUILD)
    if unknown:
        raise Unsupported(f"compose: {where}.build.{unknown[0]}: images are built without it")
    context = Path(build["context"])
    dockerfile = build.get("dockerfile")
    args = {name: str(value) for name, value in _dict(build.get("args")).items() if value is not None}
    return ImageBuild(context=context, dockerfile=context / dockerfile if dockerfile else None, args=args)


def _merged(config: SandboxConfig, main: Mapping[str, Any]) -> SandboxConfig:
    limits = _dict(_dict(_dict(main.get("deploy")).get("resources")).get("limits"))
    memory = int(main.get("mem_limit") or limits.get("memory") or 0) >> 20
    cpus = float(main.get("cpus") or limits.get("cpus") or 0)
    mounts = [
        Mount(source=Path(volume["source"]), target=volume["target"], read_only=bool(volume.get("read_only")))
        for volume in main.get("volumes") or ()
        if volume.get("type") == "bind" and not _is_log(volume)
    ]
    image = config.image
    if not isinstance(image, str) and (main.get("build") or main.get("image") != NO_IMAGE):
        image = image_of(main, where="services.main")
    return config.model_copy(
        update={
            "image": image,
            "memory_mb": config.memory_mb or memory or None,
            "cpus": config.cpus or cpus or None,
            "platform": config.platform or main.get("platform") or None,
            "mounts": (*config.mounts, *mounts),
        }
    )


def _is_log(volume: Mapping[str, Any]) -> bool:
    """Whether it would show the sandbox's logs on the host, where they are copied to instead."""
    target = str(volume.get("target"))
    return target == _LOGS or target.startswith(f"{_LOGS}/")


def _refused(name: str, service: Mapping[str, Any], directory: Path) -> Iterator[str]:
    key = f"services.{name}"
    if service.get("privileged"):
        yield f"{key}.privileged: no container gets the host's rights"
    for part in _HOSTS_OWN:
        if str(service.get(part) or "").startswith(("host", "container:")):
            yield f"{key}.{part}: no container gets the host's own, nor a stranger's"
    for part in ("devices", "device_cgroup_rules", "gpus", "volumes_from", "external_links", "runtime", "provider"):
        if service.get(part):
            yield f"{key}.{part}: not there"
    caps = {str(cap).upper().removeprefix("CAP_") for cap in service.get("cap_add") or ()}
    if caps & _TOO_MUCH:
        yield f"{key}.cap_add: {', '.join(sorted(caps & _TOO_MUCH))} would be the host's rights"
    for option in service.get("security_opt") or ():
        if "unconfined" in str(option) or "disable" in str(option):
            yield f"{key}.security_opt: {option} is not given"
    for volume in service.get("volumes") or ():
        if volume.get("type") == "bind" and not _is_log(volume) and not _is_below(volume.get("source"), directory):
            yield f"{key}.volumes: {volume.get('source')} is not below {directory}"
        elif volume.get("type") not in ("bind", "volume", "tmpfs"):
            yield f"{key}.volumes: the type {volume.get('type')} is not there"
    build = service.get("build")
    if build and not _is_below(build.get("context"), directory):
        yield f"{key}.build.context: {build.get('context')} is not below {directory}"


def _refused_parts(model: Mapping[str, Any], directory: Path) -> Iterator[str]:
    for part in ("networks", "volumes", "secrets", "configs"):
        for name, value in _dict(model.get(part)).items():
            value = _dict(value)
            if value.get("external"):
                yield f"{part}.{name}.external: it belongs to somebody else"
            if part in ("networks", "volumes") and (value.get("driver") or "bridge") not in ("bridge", "local"):
                yield f"{part}.{name}.driver: {value['driver']} is not there"
            if part == "volumes" and value.get("driver_opts"):
                yield f"{part}.{name}.driver_opts: not there"
            if value.get("file") and not _is_below(value["file"], directory):
                yield f"{part}.{name}.file: {value['file']} is not below {directory}"


def _is_below(path: object, directory: Path) -> bool:
    if not isinstance(path, str) or not path.startswith("/"):
        return False
    return Path(path).resolve().is_relative_to(directory.resolve())


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
