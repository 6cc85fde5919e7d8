"""Turns what a sandbox is asked to be into what bubblewrap is told, or refuses it by name."""

from __future__ import annotations

import platform
import posixpath
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agentix.api import ImageBuild, RuntimeMount, SandboxConfig, Unsupported
from agentix.providers.local import cgroups
from agentix.providers.local.arguments import DIRS, OPEN_DIRS, SOURCES, Root
from agentix.providers.local.bubblewrap import Bubblewrap, is_reachable
from agentix.providers.local.config import LocalConfig
from agentix.providers.local.dockerfile import read_dockerfile
from agentix.providers.local.etc import Etc
from agentix.providers.local.identity import Identity
from agentix.providers.local.image import Image
from agentix.providers.local.network import RESOLVER, Connect
from agentix.providers.local.starting import Plan

ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}

_DOCKER = "use a provider that can, such as `--provider docker`"
_SPARE = 4
"""Files get at most all but a quarter of the memory, so that a full disk is met before the memory limit."""
_PLATFORMS = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}
_HOSTS = b"127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost\n"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What was found on this machine, once for each provider."""

    bubblewrap: Bubblewrap
    etc: Etc
    connect: Connect | None


def read_image(config: SandboxConfig, *, options: LocalConfig, machine: Machine) -> Image:
    """The part of the config's image that is honoured.

    Raises:
        Unsupported: Images are refused.
        EnvFailed: The Dockerfile needs a build.
    """
    image = config.image
    build = isinstance(image, ImageBuild)
    for wanted in (config.platform, image.platform if isinstance(image, ImageBuild) else None):
        here = _PLATFORMS.get(platform.machine(), f"linux/{platform.machine()}")
        if wanted and wanted not in (here, here.partition("/")[2]):
            raise Unsupported(f"platform: the provider local runs {here}, not {wanted}", hint=_DOCKER)
    if image and options.images == "refuse":
        name = "a Dockerfile" if build else repr(image)
        raise Unsupported(f"image: the provider local has no images (images=refuse), asked for {name}", hint=_DOCKER)
    if isinstance(image, ImageBuild):
        return read_dockerfile(image, etc=machine.etc, folders=(*DIRS, *OPEN_DIRS, "/", "/root", "/etc", "/var"))
    return Image(name=image or None)


def refuse(config: SandboxConfig, *, identity: Identity) -> None:
    """Refuse what this provider cannot do.

    Raises:
        Unsupported: The message names the field.
    """
    if config.network == "allowlist":
        raise Unsupported("network: the provider local cannot limit a network to allowed hosts", hint=_DOCKER)
    if config.gpus:
        raise Unsupported("gpus: the provider local gives no GPUs", hint=_DOCKER)
    if config.compose is not None:
        raise Unsupported("compose: the provider local runs no services beside a sandbox", hint=_DOCKER)
    for mount in config.mounts:
        if not mount.target.startswith("/"):
            raise Unsupported(f"mounts: the target {mount.target} is not an absolute path")
        if not mount.source.exists():
            raise Unsupported(f"mounts: {mount.source} does not exist")
        if identity.switch and not mount.read_only:
            raise Unsupported(
                f"mounts: {mount.source} cannot be writable where agentix runs as root",
                hint="its files belong to users that do not exist in a sandbox: run agentix as their owner",
            )
        if identity.switch and not is_reachable(mount.source):
            raise Unsupported(f"mounts: {mount.source} cannot be read by other users", hint="move it, or chmod it")


def choose_user(config: SandboxConfig, image: Image, *, identity: Identity, etc: Etc) -> str | None:
    """The user of commands that name none.

    Raises:
        Unsupported: There is no such user in a sandbox of this machine.
    """
    user = config.user or image.user
    if user is None:
        return None
    uid = etc.uid(user)
    if uid is None:
        raise Unsupported(f"user: there is no user {user!r} among this machine's system users", hint=_DOCKER)
    if uid != 0 and not identity.has_users:
        raise Unsupported(
            f"user: sandboxes of an ordinary user have no user {user!r}, only root", hint="run agentix as root"
        )
    return user


def directories(config: SandboxConfig, image: Image) -> tuple[str, ...]:
    """The directories to make for a config, each after those that it lies in."""
    return _with_parents((*image.dirs, image.workdir, *((config.workdir,) if config.workdir else ())))


def make_plan(
    config: SandboxConfig,
    image: Image,
    *,
    options: LocalConfig,
    machine: Machine,
    identity: Identity,
    runtime: RuntimeMount,
    server: Sequence[str],
) -> Plan:
    """The plan for a config that was not refused."""
    public = config.network == "public"
    shared = public and options.share_host_network
    wanted = limits(config, options=options)
    workdirs = (image.workdir, *((config.workdir,) if config.workdir else ()))
    return Plan(
        bubblewrap=machine.bubblewrap,
        identity=identity,
        root=Root(
            etc=machine.etc,
            runtime=runtime,
            storage_bytes=storage_bytes(config, options=options),
            mounts=config.mounts,
            dirs=directories(config, image),
            own_sources=any(
                PurePosixPath(path).is_relative_to(SOURCES)
                for path in (*image.dirs, *workdirs, *(entry.path for entry in image.entries))
            ),
            shown=options.show,
            share_network=shared,
        ),
        server=(*runtime.argv, *server),
        rlimits=_rlimits(wanted),
        files=_files(machine.etc, shared=shared, public=public),
        limits=wanted,
        entries=image.entries,
        seed_limit_s=config.build_timeout_s or 600.0,
        connect=machine.connect if public and not shared else None,
    )


def storage_bytes(config: SandboxConfig, *, options: LocalConfig) -> int:
    """Room for files, which live in memory."""
    room = (config.storage_mb or options.storage_mb) << 20
    return room if config.memory_mb is None else min(room, (config.memory_mb << 20) * (_SPARE - 1) // _SPARE)


def limits(config: SandboxConfig, *, options: LocalConfig) -> cgroups.Limits:
    """What a sandbox may use."""
    return cgroups.Limits(
        memory_bytes=None if config.memory_mb is None else config.memory_mb << 20,
        pids=config.pids,
        processes=options.pids if config.pids is None else None,
        cpus=config.cpus,
    )


def notes(config: SandboxConfig, image: Image, *, options: LocalConfig, machine: Machine) -> tuple[str, ...]:
    """What the user should know once per run."""
    said = []
    if image.name:
        said.append(f"local: the host's tools stand in for the image {image.name}")
    if config.network == "public":
        if options.share_host_network:
            said.append("local: sandboxes share the host's network, loopback included (share_host_network)")
        elif machine.connect is None:
            said.append(
                "local: sandboxes have no network: install slirp4netns to give them one, or use the host's own by "
                "`--provider-opt share_host_network=true`"
            )
    parents = cgroups.usable_parents()
    ways = {"memory": (config.memory_mb, "the data segment of each process"), "cpu": (config.cpus, None)}
    for controller, (value, instead) in ways.items():
        if value is not None and controller not in parents:
            way = f"limits {instead} instead (rlimit)" if instead else "sets no such limit"
            said.append(f"local: no control group for {controller} can be made here: it {way}")
    wanted, given = config.storage_mb, storage_bytes(config, options=options) >> 20
    if wanted is not None and given < wanted:
        said.append(
            f"local: files live in memory, so that storage is limited to {given} MiB of the {wanted} MiB asked for, "
            f"three quarters of the {config.memory_mb} MiB of memory"
        )
    return tuple(said)


def _rlimits(wanted: cgroups.Limits) -> tuple[tuple[int, int], ...]:
    """What limits each process, or each user's processes, where no control group does."""
    parents = cgroups.usable_parents()
    limited = {
        resource.RLIMIT_NPROC: wanted.processes if "pids" in parents else wanted.pids or wanted.processes,
        resource.RLIMIT_DATA: None if "memory" in parents else wanted.memory_bytes,
    }
    return tuple((name, value) for name, value in limited.items() if value)


def _files(etc: Etc, *, shared: bool, public: bool) -> Mapping[str, bytes]:
    files = {
        "/etc/passwd": etc.passwd.encode("utf-8", "surrogateescape"),
        "/etc/group": etc.group.encode("utf-8", "surrogateescape"),
        "/etc/hosts": _HOSTS,
    }
    if shared:
        for name in ("resolv.conf", "hosts"):
            path = Path("/etc", name)
            files[f"/etc/{name}"] = path.read_bytes() if path.is_file() else b""
    elif public:
        files["/etc/resolv.conf"] = f"nameserver {RESOLVER}\n".encode("ascii")
    return files


def _with_parents(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Every directory on the way, so that each gets the mode of a directory and not of a file's hidden parent."""
    made: dict[str, None] = {}
    for folder in folders:
        path = PurePosixPath(posixpath.normpath(folder))
        for place in (*reversed(path.parents), path):
            if str(place) not in ("/", "/usr", SOURCES, *OPEN_DIRS):
                made[str(place)] = None
    return tuple(made)
