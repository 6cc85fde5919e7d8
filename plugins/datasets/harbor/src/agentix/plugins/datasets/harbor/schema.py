"""The keys of `task.toml`, schema 1.4 of the Harbor task format, as frozen models.

Keys that are not known are kept in `model_extra`, so that whoever reads the file can say so. A value that
the format allows but that cannot be honoured here is no error of the file; `support` refuses it by name
when the task is run.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from agentix.api import McpServer as GivenServer
from agentix.plugins.datasets.harbor.network import NetworkMode, NetworkPolicy, normalized_hosts
from agentix.plugins.datasets.harbor.step_name import checked_step_name, step_name_key
from agentix.plugins.datasets.harbor.values import (
    AbsolutePath,
    Amount,
    Count,
    Cpus,
    Env,
    Name,
    Pause,
    SchemaVersion,
    Seconds,
    SourcePath,
    Thresholds,
    User,
    Version,
    megabytes,
    no_parent,
)

MAIN_SERVICE = "main"


class Table(BaseModel):
    """A table of task.toml."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Phase(Table):
    """What `[agent]` and `[verifier]` may say about the network of their phase."""

    network_mode: NetworkMode | None = None
    allowed_hosts: tuple[str, ...] | None = None

    _hosts = field_validator("allowed_hosts")(normalized_hosts)

    @model_validator(mode="after")
    def _check_network(self) -> Self:
        if self.allowed_hosts is not None and self.network_mode != "allowlist":
            raise ValueError('allowed_hosts needs network_mode = "allowlist"')
        return self

    @property
    def network(self) -> NetworkPolicy | None:
        """The phase's own policy; `None` where it leaves the environment's."""
        if self.network_mode is None:
            return None
        return NetworkPolicy(mode=self.network_mode, hosts=self.allowed_hosts or ())


class Author(Table):
    """One author of a task."""

    name: str
    email: str | None = None


class Package(Table):
    """`[task]`: how the task is published. None of it changes how it runs."""

    name: str
    version: Version | None = None
    description: str = ""
    authors: tuple[Author, ...] = ()
    keywords: tuple[str, ...] = ()


class Agent(Phase):
    """`[agent]`."""

    timeout_sec: Seconds | None = None
    user: User | None = None


class Solution(Table):
    """`[solution]`."""

    env: Env = Field(default_factory=dict)


class Healthcheck(Table):
    """`[environment.healthcheck]` and `[steps.healthcheck]`; the meaning is that of Docker's HEALTHCHECK."""

    command: str
    interval_sec: Pause = 5.0
    timeout_sec: Seconds = 30.0
    start_period_sec: Pause = 0.0
    start_interval_sec: Pause = 5.0
    retries: Amount = 3

    @property
    def longest_s(self) -> float:
        """Seconds after which it has passed or failed, whatever the command does."""
        tries = self.retries * (self.timeout_sec + self.interval_sec)
        return self.start_period_sec + self.timeout_sec + self.start_interval_sec + tries


class McpServer(Table):
    """`[[environment.mcp_servers]]`."""

    name: str
    transport: Literal["sse", "streamable-http", "http", "stdio"] = "sse"
    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    headers: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_transport(self) -> Self:
        needed = "command" if self.transport == "stdio" else "url"
        if not getattr(self, needed):
            raise ValueError(f"the transport {self.transport} needs {needed}")
        return self

    def given(self) -> GivenServer:
        """As agents get it."""
        transport = "streamable-http" if self.transport == "http" else self.transport
        return GivenServer(
            name=self.name,
            transport=transport,
            url=self.url,
            command=self.command,
            args=self.args,
            headers=self.headers,
        )


class Environment(Table):
    """`[environment]` and `[verifier.environment]`."""

    build_timeout_sec: Seconds = 600.0
    docker_image: Name | None = None
    os: Literal["linux", "windows"] = "linux"
    cpus: Cpus | None = None
    memory_mb: Amount | None = None
    storage_mb: Amount | None = None
    gpus: Count = 0
    gpu_types: tuple[str, ...] | None = None
    tpu: dict[str, Any] | None = None
    workdir: AbsolutePath | None = None
    env: Env = Field(default_factory=dict)
    skills_dir: str | None = None
    healthcheck: Healthcheck | None = None
    mcp_servers: tuple[McpServer, ...] = ()
    network_mode: NetworkMode = "public"
    allowed_hosts: tuple[str, ...] | None = None

    _hosts = field_validator("allowed_hosts")(normalized_hosts)

    @model_validator(mode="before")
    @classmethod
    def _accept_deprecated(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = dict(data)
        for old, new in (("memory", "memory_mb"), ("storage", "storage_mb")):
            if old in data:
                size = megabytes(data.pop(old), key=old)
                if data.setdefault(new, size) != size:
                    raise ValueError(f"{old} and {new} say different things")
        internet = data.pop("allow_internet", None)
        if internet is not None:
            if not isinstance(internet, bool):
                raise ValueError("allow_internet is true or false")
            if "allowed_hosts" not in data:
                data.setdefault("network_mode", "public" if internet else "no-network")
        if isinstance(data.get("os"), str):
            data["os"] = data["os"].lower()
        return data

    @model_validator(mode="after")
    def _check_network(self) -> Self:
        if self.allowed_hosts is not None and self.network_mode != "allowlist":
            raise ValueError('allowed_hosts needs network_mode = "allowlist"')
        return self

    @property
    def network(self) -> NetworkPolicy:
        """The policy of every phase that has none of its own."""
        return NetworkPolicy(mode=self.network_mode, hosts=self.allowed_hosts or ())


class CollectHook(Table):
    """`[[verifier.collect]]`: a command that runs after the agent and before artifacts are collected."""

    command: str
    service: str = MAIN_SERVICE
    timeout_sec: Seconds = 60.0
    user: User | None = None


class Artifact(Table):
    """One entry of `artifacts`; a string stands for its `source`."""

    source: SourcePath
    destination: str | None = None
    exclude: tuple[str, ...] = ()
    service: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _accept_string(cls, data: Any) -> Any:
        return {"source": data} if isinstance(data, str) else data

    @field_validator("destination")
    @classmethod
    def _check_destination(cls, value: str | None) -> str | None:
        if not value:
            return None
        if value.startswith("/") or "\\" in value:
            raise ValueError(f"the destination {value!r} must be a relative path with forward slashes")
        if not [part for part in value.split("/") if part not in ("", ".")]:
            raise ValueError(f"the destination {value!r} names no file or directory")
        return no_parent(value)


class Verifier(Phase):
    """`[verifier]`."""

    timeout_sec: Seconds = 600.0
    env: Env = Field(default_factory=dict)
    user: User | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: Environment | None = None
    collect: tuple[CollectHook, ...] = ()

    @model_validator(mode="after")
    def _check_mode(self) -> Self:
        if self.environment_mode == "shared" and self.environment is not None:
            raise ValueError('environment_mode = "shared" cannot have an environment of its own')
        return self

    @property
    def mode(self) -> Literal["shared", "separate"] | None:
        """What this table says about where the verifier runs; an environment of its own means separate."""
        return self.environment_mode or (None if self.environment is None else "separate")


class Step(Table):
    """`[[steps]]`."""

    name: str
    agent: Agent = Field(default_factory=Agent)
    verifier: Verifier = Field(default_factory=Verifier)
    min_reward: Thresholds | None = None
    healthcheck: Healthcheck | None = None
    artifacts: tuple[Artifact, ...] = ()

    _name = field_validator("name")(checked_step_name)


class TaskFile(Table):
    """The whole of `task.toml`."""

    schema_version: SchemaVersion = "1.4"
    source: str | None = None
    task: Package | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    agent: Agent = Field(default_factory=Agent)
    verifier: Verifier = Field(default_factory=Verifier)
    solution: Solution = Field(default_factory=Solution)
    environment: Environment = Field(default_factory=Environment)
    steps: tuple[Step, ...] = ()
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    artifacts: tuple[Artifact, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _accept_deprecated(cls, data: Any) -> Any:
        if isinstance(data, dict) and "version" in data:
            data = dict(data)
            data.setdefault("schema_version", data.pop("version"))
        return data

    @field_validator("steps")
    @classmethod
    def _check_unique(cls, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        seen: dict[str, str] = {}
        for step in steps:
            first = seen.setdefault(step_name_key(step.name), step.name)
            if first is not step.name:
                raise ValueError(f"the steps {first!r} and {step.name!r} have one name")
        return steps
