"""Runs services beside a sandbox: the compose plugin starts them, the engine's API does all else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio

from agentix.api import EnvFailed, HostError, ImageBuild, SandboxConfig
from agentix.providers.docker.compose_plugin import ComposePlugin
from agentix.providers.docker.compose_project import BESIDE, NO_IMAGE, PROJECT, Project, image_of, read_project
from agentix.providers.docker.engine import segment
from agentix.providers.docker.health import healthcheck_of

if TYPE_CHECKING:
    from agentix.providers.docker.config import DockerConfig
    from agentix.providers.docker.engine import Engine
    from agentix.providers.docker.image import Image
    from agentix.providers.docker.images import Images

_LOADER = frozenset({"LD_AUDIT", "LD_PRELOAD", "LD_LIBRARY_PATH"})
_POLL_S = 0.1
_GONE_S = 20.0
_LOG_LINES = "20"
_HEAD = 8


class Projects:
    """The services beside sandboxes.

    Args:
        engine: The engine.
        options: The provider's options.
        images: Gets and builds images.
    """

    def __init__(self, engine: Engine, options: DockerConfig, images: Images) -> None:
        self._engine = engine
        self._plugin = ComposePlugin(engine.endpoint, options)
        self._images = images

    async def read(self, sandbox_id: str, config: SandboxConfig) -> Project:
        """What the config's compose file means.

        Raises:
            EnvFailed: It is malformed, asks for too much, or the plugin is not installed.
        """
        compose = config.compose
        assert compose is not None
        base = {"services": {compose.service: {"image": NO_IMAGE}}}
        variables = {"MAIN_IMAGE_NAME": NO_IMAGE, **compose.variables}
        model = await self._plugin.config(sandbox_id, compose.files, base=base, variables=variables)
        return read_project(sandbox_id, config, model)

    async def fetch(self, project: Project) -> None:
        """Get the images of the services.

        Raises:
            EnvFailed: An image cannot be had.
            HostError: The engine or a registry failed.
        """
        for name, service in project.services.items():
            await self._image(service, where=f"services.{name}", config=project.config)

    async def up(self, project: Project, *, labels: Mapping[str, str]) -> None:
        """Get the images, start the services, and wait until they are as the file says.

        Raises:
            EnvFailed: An image cannot be had, or a service does not come up.
            HostError: The engine failed.
        """
        for name, service in project.services.items():
            image = await self._image(service, where=f"services.{name}", config=project.config)
            service.pop("build", None)
            service["image"] = image
        await self._plugin.up(project.id, project.directory, project.model(labels=labels))
        for name, condition in project.awaited.items():
            await self._wait(project, name, condition)

    async def _image(self, service: Mapping[str, Any], *, where: str, config: SandboxConfig) -> str:
        wanted = image_of(service, where=where)
        platform = service.get("platform")
        if isinstance(wanted, ImageBuild):
            return (await self._images.builds.get(wanted, platform=platform, timeout_s=config.build_timeout_s)).name
        await self._images.pulls.get(wanted, platform=platform)
        return wanted

    async def _wait(self, project: Project, name: str, condition: str) -> None:
        while True:
            containers = [await self._state(found["Id"]) for found in await self._containers(project.id, service=name)]
            if containers and all(_is_ready(state, condition) for state in containers):
                return
            failed = next((state for state in containers if _has_failed(state, condition)), None)
            if failed is not None:
                said = await self._log(str(failed["Id"]))
                raise EnvFailed(
                    f"the service {name} beside the sandbox {_how(failed)}" + (f":\n{said}" if said else ""),
                    detail="compose",
                )
            await anyio.sleep(_POLL_S)

    async def _state(self, container: str) -> dict[str, Any]:
        answer = await self._engine.call("GET", f"/containers/{segment(container)}/json", doing="look at a service")
        return {**answer.json()["State"], "Id": container}

    async def _log(self, container: str) -> str:
        query = {"stdout": "1", "stderr": "1", "tail": _LOG_LINES}
        path = f"/containers/{segment(container)}/logs"
        answer = await self._engine.call("GET", path, query=query, doing="read a service's log", ok=(404, 409, 500))
        if answer.status >= 400:
            return ""
        text, raw = bytearray(), answer.body
        while len(raw) > _HEAD:
            size = int.from_bytes(raw[4:_HEAD], "big")
            text += raw[_HEAD : _HEAD + size]
            raw = raw[_HEAD + size :]
        return text.decode("utf-8", "replace").strip()

    async def _containers(self, sandbox_id: str, *, service: str | None = None) -> list[dict[str, Any]]:
        labels = [f"{PROJECT}={sandbox_id}"]
        if service is not None:
            labels.append(f"com.docker.compose.service={service}")
        query = {"all": "1", "filters": json.dumps({"label": labels})}
        answer = await self._engine.call("GET", "/containers/json", query=query, doing="list services")
        return answer.json() or []

    async def connect(self, project: Project, container: str) -> None:
        """Join the sandbox, which does not run yet, to all of its networks but the first."""
        for network in list(_networks(project))[1:]:
            body = {"Container": container, "EndpointConfig": {"Aliases": _aliases(project, network)}}
            path = f"/networks/{segment(project.networks[network]['name'])}/connect"
            await self._engine.call("POST", path, body=body, doing="connect the sandbox to its network")

    async def is_project(self, sandbox_id: str) -> bool:
        """Whether a sandbox that another process made has services, or something that was made for them."""
        return bool(await self._containers(sandbox_id) or await self._parts(sandbox_id))

    async def _parts(self, sandbox_id: str) -> list[dict[str, Any]]:
        filters = {"filters": json.dumps({"label": [f"{PROJECT}={sandbox_id}"]})}
        found: list[dict[str, Any]] = []
        for path in ("/networks", "/volumes"):
            answer = (await self._engine.call("GET", path, query=filters, doing="list networks and volumes")).json()
            found += (answer if isinstance(answer, list) else (answer or {}).get("Volumes")) or ()
        return found

    async def remove(self, sandbox_id: str) -> None:
        """Remove the services with their networks and volumes; the sandbox itself is gone already.

        Raises:
            HostError: Something is still there.
        """
        deadline = anyio.current_time() + _GONE_S
        while containers := await self._containers(sandbox_id):
            if anyio.current_time() > deadline:
                raise HostError(f"{len(containers)} services of the sandbox {sandbox_id} cannot be removed")
            async with anyio.create_task_group() as group:
                for container in containers:
                    group.start_soon(self._remove_container, container["Id"])
        filters = {"filters": json.dumps({"label": [f"{PROJECT}={sandbox_id}"]})}
        networks = (await self._engine.call("GET", "/networks", query=filters, doing="list networks")).json()
        for network in networks or ():
            path = f"/networks/{segment(network['Id'])}"
            await self._engine.call("DELETE", path, doing="remove a network", ok=(404,))
        volumes = (await self._engine.call("GET", "/volumes", query=filters, doing="list volumes")).json()
        for volume in (volumes or {}).get("Volumes") or ():
            path = f"/volumes/{segment(volume['Name'])}"
            await self._engine.call("DELETE", path, query={"force": "1"}, doing="remove a volume", ok=(404,))

    async def _remove_container(self, container: str) -> None:
        path, query = f"/containers/{segment(container)}", {"force": "1", "v": "1"}
        answer = await self._engine.call("DELETE", path, query=query, doing="remove a service", ok=(404, 409))
        if answer.status == 409:
            await anyio.sleep(_POLL_S)


def joined(body: dict[str, Any], project: Project, *, image: Image, head: tuple[str, ...], home: str) -> dict[str, Any]:
    """The request that creates the sandbox, with its place among the services.

    Args:
        body: The request without it.
        project: The services.
        image: The sandbox's image.
        head: What starts the runtime, before the image's own program.
        home: The directory in which that starts.
    """
    main, host = project.main, dict(body["HostConfig"])
    networks = _networks(project)
    if networks:
        name = project.networks[networks[0]]["name"]
        host["NetworkMode"] = name
        body["NetworkingConfig"] = {"EndpointsConfig": {name: {"Aliases": _aliases(project, networks[0])}}}
    volumes = [
        {
            "Type": "volume",
            "Source": project.volumes[volume["source"]]["name"] if volume.get("source") else "",
            "Target": volume["target"],
            "ReadOnly": bool(volume.get("read_only")),
        }
        for volume in main.get("volumes") or ()
        if volume.get("type") == "volume"
    ]
    host["Mounts"] = [*host["Mounts"], *volumes]
    if main.get("tmpfs"):
        pairs = [str(entry).partition(":") for entry in main["tmpfs"]]
        host["Tmpfs"] = {**(host.get("Tmpfs") or {}), **{path: options for path, _, options in pairs}}
    if main.get("extra_hosts"):
        host["ExtraHosts"] = [str(entry).replace("=", ":", 1) for entry in main["extra_hosts"]]
    if main.get("shm_size"):
        host["ShmSize"] = int(main["shm_size"])
    if main.get("cap_add"):
        host["CapAdd"] = [*(host.get("CapAdd") or ()), *main["cap_add"]]
    if main.get("hostname"):
        body["Hostname"] = main["hostname"]
    entrypoint, command = main.get("entrypoint"), main.get("command")
    if entrypoint or command:
        own = [*(image.entrypoint if entrypoint is None else entrypoint), *(command or ())]
        body["Entrypoint"] = [*head, home, *own]
    check = healthcheck_of(main)
    if check is not None:
        body["Healthcheck"] = check
        # What the engine runs knows the container's variables only.
        own_env = main.get("environment") or {}
        body["Env"] = [
            *body.get("Env", ()),
            *(f"{name}={value}" for name, value in own_env.items() if value is not None and name not in _LOADER),
        ]
    body["Labels"] = {**body["Labels"], PROJECT: project.id, BESIDE: project.id}
    body["HostConfig"] = host
    return body


def _networks(project: Project) -> list[str]:
    return [name for name in project.main.get("networks") or () if name in project.networks]


def _aliases(project: Project, network: str) -> list[str]:
    own = (project.main["networks"] or {}).get(network) or {}
    return list(dict.fromkeys((project.service, *(own.get("aliases") or ()))))


def _is_ready(state: Mapping[str, Any], condition: str) -> bool:
    status, code = str(state["Status"]), int(state["ExitCode"])
    if condition == "service_completed_successfully":
        return status == "exited" and code == 0
    if condition == "service_healthy":
        return _health(state) == "healthy"
    return status == "running" or (status == "exited" and code == 0)


def _has_failed(state: Mapping[str, Any], condition: str) -> bool:
    if state["Status"] in ("exited", "dead"):
        return bool(state["ExitCode"]) or condition == "service_healthy"
    return _health(state) == "unhealthy"


def _health(state: Mapping[str, Any]) -> str:
    return str((state.get("Health") or {}).get("Status") or "")


def _how(state: Mapping[str, Any]) -> str:
    if state["Status"] in ("exited", "dead"):
        return f"exited with {state['ExitCode']}"
    last = ((state.get("Health") or {}).get("Log") or [{}])[-1]
    said = str(last.get("Output") or "").strip()[-500:]
    return "is not healthy" + (f" ({said})" if said else "")
