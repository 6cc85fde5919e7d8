"""What an experiment file may say: the three documents as data. Where each value stands, `places.py` knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SkipValidation

from agentix.plugins.experiments.documents.nodes import Place
from agentix.plugins.experiments.documents.places import Places
from agentix.plugins.experiments.documents.values import Duration

Name = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class Document(BaseModel):
    """Strict: a word for a number is an error, and so is a key that nobody reads."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_by_name=True)


class CommandSpec(Document):
    """One configured command: exactly one of `run`, `script` and `uses`."""

    run: tuple[str, ...] | None = Field(default=None, min_length=1)
    """A program and its arguments, with `{{.CamelCase}}` variables."""
    script: Annotated[str, Field(min_length=1)] | None = None
    """A bash script."""
    uses: Name | None = None
    """An executable file, relative to the document that names it."""
    sha256: Digest | None = None
    """What that file has to hash to."""
    env: tuple[VariableName, ...] = ()
    """The variables of this machine that it may see where `inherit_env` is false."""
    timeout: Duration | None = None
    """Instead of the document's."""


class Commands(Document):
    """How external things are run."""

    timeout: Duration = 1800.0
    """Seconds that a command may take."""
    max_attempts: Count = 3
    """How often fetching a case is tried."""
    inherit_env: bool = True
    """Whether commands see this machine's environment."""
    commands: Mapping[Name, CommandSpec] = Field(default_factory=dict)
    files: Mapping[Name, Path] = Field(default_factory=dict)
    """The document that each command stands in; `uses` is relative to it."""


class PriceSpec(Document):
    """US dollars for a million tokens."""

    input: Annotated[float, Field(ge=0)] | None = None
    output: Annotated[float, Field(ge=0)] | None = None
    cached: Annotated[float, Field(ge=0)] | None = None


class LLMSpec(Document):
    """A model."""

    name: Name
    model: Name
    api: Name | None = None
    """`anthropic`, `openai`, …; the file may call it `provider`."""
    base_url: Name | None = None
    api_key_env: VariableName | None = None
    """The name of the variable that holds the key."""
    api_key_cmd: tuple[str, ...] | None = Field(default=None, min_length=1)
    """A program that prints the key."""
    parameters: Mapping[str, Any] = Field(default_factory=dict)
    price: PriceSpec | None = None


class CaseSpec(Document):
    """Where a case is. A key that is not given is taken from `case_defaults`."""

    source: Literal["local", "git", "hf", "dataset"] = "local"
    id: Name | None = None
    path: Name | None = None
    """Of a directory; a glob for several. In the repository for `git` and `hf`."""
    repo: Name | None = None
    ref: Name | None = None
    sha256: Digest | None = None
    """What the content has to hash to; for a path that names one case."""
    fetch: Name | None = None
    """The configured command that fetches it, instead of the source's own."""
    dataset: Name | None = None
    """With `source: dataset`, the plugin; else the one that runs the directory, `harbor` by default."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Of the dataset."""
    ids: tuple[Name, ...] = ()
    """With `source: dataset`, which instances, as globs; all by default."""


class AgentSpec(Document):
    """An agent of the matrix; in the file also just its name."""

    name: Name
    id: Name | None = None
    """What trial ids call it instead of its name."""
    llm_spec: Name | None = None
    """The one model that it runs with, instead of the matrix's."""
    trials: Count | None = None
    options: Mapping[str, Any] = Field(default_factory=dict)


class Matrix(Document):
    """What is run on every case."""

    agents: tuple[AgentSpec, ...] = Field(min_length=1)
    llm_specs: tuple[Name, ...] = ()
    trials: Count = 1


class LimitsSpec(Document):
    """What one attempt of the agent may use."""

    timeout: Duration | None = None
    max_tool_calls: Count | None = None
    max_tokens: Count | None = None
    max_cost_usd: Annotated[float, Field(gt=0)] | None = None
    max_turns: Count | None = None


class ProviderSpec(Document):
    """Where sandboxes come from; in the file also just its name. Keys beside `name` are its options."""

    name: Name
    options: Mapping[str, Any] = Field(default_factory=dict)


class StepSpec(Document):
    """One step of the pipeline."""

    uses: Name
    """An installed step, else a configured command."""
    name: Name | None = None
    """What reports call it; by default as `uses`."""
    inputs: Mapping[str, Any] = Field(default_factory=dict, validation_alias="with")
    """In the file: `with`."""
    on_failure: Literal["fail", "warn", "skip"] = "fail"
    on_violation: Literal["fail", "warn", "drop"] | None = None
    fix: Name | None = None
    """The command that repairs what a per-case step rejected."""
    fix_writeback: bool = False
    fix_attempts: Count = 1
    retries: Annotated[int, Field(ge=0)] = 0

    @property
    def label(self) -> str:
        """What reports call it."""
        return self.name or self.uses


class Pipeline(Document):
    """The steps, one list per unit of work."""

    concurrency: Count = 4
    """How many trials are post-processed at once."""
    per_case_concurrency: Count = 1
    inputs: Mapping[str, Any] = Field(default_factory=dict, validation_alias="with")
    """In the file: `with`. Inputs for every step that takes them and does not say otherwise."""
    per_case: tuple[StepSpec, ...] = ()
    per_trial: tuple[StepSpec, ...] = ()
    per_experiment: tuple[StepSpec, ...] = ()


class Experiment(Document):
    """The run."""

    name: Name
    cases: tuple[CaseSpec, ...] = Field(min_length=1)
    """With `case_defaults` filled in."""
    matrix: Matrix
    concurrency: Count = 1
    max_attempts: Count = 1
    retry_on: tuple[Name, ...] | None = None
    prepare_ahead: Annotated[int, Field(ge=0)] | None = None
    limits: LimitsSpec = Field(default_factory=LimitsSpec)
    provider: ProviderSpec | None = None
    pipeline: Pipeline = Field(default_factory=Pipeline)


class Submission(Document):
    """One experiment file, checked, with what it includes."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    path: Path
    """The file; relative paths in it are also tried beside it."""
    sha256: Digest
    """Of the file's bytes."""
    text: bytes
    experiment: Experiment
    llm_specs: Mapping[str, LLMSpec] = Field(default_factory=dict)
    commands: Commands = Field(default_factory=Commands)
    notices: tuple[str, ...] = ()
    """What the user should know of how the file was read."""
    places: SkipValidation[Places] = Field(default_factory=Places, repr=False)
    """Where everything stands."""

    def place(self, path: str) -> Place:
        """Where a path of the experiment stands, such as `pipeline.per_trial[1].with.keys`.

        Also of a command (`commands.harbor.uses`) and a model (`llm_specs.opus.base_url`). Of a path that was not
        written, where the longest part of it stands.
        """
        return self.places.find(path, default=self.path)
