"""What an experiment file may say: the three documents as data. Where each value stands, `places.py` knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SkipValidation

from agentix.plugins.experiments.documents.nodes import Place
from agentix.plugins.experiments.documents.places import Places
from agentix.plugins.experiments.documents.values import Duration

if TYPE_CHECKING:
    from agentix.api import Limits

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
    """By name."""
    files: Mapping[Name, Path] = Field(default_factory=dict)
    """The document that each command stands in; `uses` is relative to it."""


class PriceSpec(Document):
    """US dollars for a million tokens."""

    input: Annotated[float, Field(ge=0)] | None = None
    """Of what is sent; the file may call it `in`."""
    output: Annotated[float, Field(ge=0)] | None = None
    """Of what comes back; the file may call it `out`."""
    cached: Annotated[float, Field(ge=0)] | None = None
    """Of what is read from the cache."""


class LLMSpec(Document):
    """A model."""

    name: Name
    """What the matrix calls it."""
    model: Name
    """What its API calls it."""
    api: Name | None = None
    """`anthropic`, `openai`, …; the file may call it `provider`."""
    base_url: Name | None = None
    """Where its API is, if not where that API always is."""
    api_key_env: VariableName | None = None
    """The name of the variable that holds the key."""
    api_key_cmd: tuple[str, ...] | None = Field(default=None, min_length=1)
    """A program that prints the key."""
    parameters: Mapping[str, Any] = Field(default_factory=dict)
    """Passed on to the agent, such as a temperature."""
    price: PriceSpec | None = None
    """What it costs, so that runs know what they cost."""


class CaseSpec(Document):
    """Where a case is. A key that is not given is taken from `case_defaults`."""

    source: Literal["local", "git", "hf", "dataset"] = "local"
    """Where it comes from."""
    id: Name | None = None
    """What trial ids call it instead of the last part of its path."""
    path: Name | None = None
    """Of a directory; a glob for several. In the repository for `git` and `hf`."""
    repo: Name | None = None
    """Address of the git repository, or name of the dataset repository on the hub."""
    ref: Name | None = None
    """Branch, tag or commit. What is recorded is the commit."""
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
    """Of an installed agent, or of the configured command `agent_<name>`."""
    id: Name | None = None
    """What trial ids call it instead of its name."""
    llm_spec: Name | None = None
    """The one model that it runs with, instead of the matrix's."""
    trials: Count | None = None
    """How often it runs on a case, instead of the matrix's number."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Of the agent."""


class Matrix(Document):
    """What is run on every case."""

    agents: tuple[AgentSpec, ...] = Field(min_length=1)
    """Names, or mappings that say more."""
    llm_specs: tuple[Name, ...] = ()
    """The models that every agent runs with, unless it needs none or names its own."""
    trials: Count = 1
    """How often each agent runs on each case; once for one that always does the same."""


class LimitsSpec(Document):
    """What one attempt of the agent may use."""

    timeout: Duration | None = None
    """How long it may take."""
    max_tool_calls: Count | None = None
    """How many tools it may call."""
    max_tokens: Count | None = None
    """How many tokens it may use, in and out."""
    max_cost_usd: Annotated[float, Field(gt=0)] | None = None
    """What it may cost, where the price is known."""
    max_turns: Count | None = None
    """How often it may ask the model."""

    def to_limits(self) -> Limits | None:
        """The same for whoever keeps to them; `None` where nothing is said."""
        from agentix.api import Limits

        given = self.model_dump(exclude_none=True)
        return Limits(**{"agent_s" if key == "timeout" else key: given[key] for key in given}) if given else None


class ProviderSpec(Document):
    """Where sandboxes come from; in the file also just its name. Keys beside `name` are its options."""

    name: Name
    """Of an installed provider."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """Of the provider."""


class StepSpec(Document):
    """One step of the pipeline."""

    uses: Name
    """An installed step, else a configured command."""
    name: Name | None = None
    """What reports call it; by default as `uses`."""
    inputs: Mapping[str, Any] = Field(default_factory=dict, validation_alias="with")
    """In the file: `with`."""
    on_failure: Literal["fail", "warn", "skip"] = "fail"
    """What becomes of a unit whose step fails; `skip` leaves the unit out and goes on."""
    on_violation: Literal["fail", "warn", "drop"] | None = None
    """What becomes of a unit that a guard rejects; `drop` keeps the measurement and publishes nothing of it."""
    fix: Name | None = None
    """The command that repairs what a per-case step rejected."""
    fix_writeback: bool = False
    """Whether the repaired case is written back to where it came from."""
    fix_attempts: Count = 1
    """How many rounds of check, repair, check there are."""
    retries: Annotated[int, Field(ge=0)] = 0
    """How often the step is tried again where it came to no conclusion."""

    @property
    def label(self) -> str:
        """What reports call it."""
        return self.name or self.uses


class Pipeline(Document):
    """The steps, one list per unit of work."""

    concurrency: Count = 4
    """How many trials are post-processed at once."""
    per_case_concurrency: Count = 1
    """How many cases are checked at once."""
    inputs: Mapping[str, Any] = Field(default_factory=dict, validation_alias="with")
    """In the file: `with`. Inputs for every step that takes them and does not say otherwise."""
    per_case: tuple[StepSpec, ...] = ()
    """Before any trial, for each case: is it fit to be measured?"""
    per_trial: tuple[StepSpec, ...] = ()
    """For each trial; the first one may say what runs it."""
    per_experiment: tuple[StepSpec, ...] = ()
    """Once, when all trials are done."""


class Experiment(Document):
    """The run."""

    name: Name
    """What reports call it."""
    cases: tuple[CaseSpec, ...] = Field(min_length=1)
    """With `case_defaults` filled in."""
    matrix: Matrix
    """What runs on every case."""
    concurrency: Count = 1
    """How many trials run at once."""
    max_attempts: Count = 1
    """How often a trial is tried where it failed for a reason that may pass."""
    retry_on: tuple[Name, ...] | None = None
    """The failure codes that are such reasons, instead of the usual ones."""
    prepare_ahead: Annotated[int, Field(ge=0)] | None = None
    """How many sandboxes are made ready ahead of need; a quarter of `concurrency` by default."""
    limits: LimitsSpec = Field(default_factory=LimitsSpec)
    """What one attempt of an agent may use."""
    provider: ProviderSpec | None = None
    """Where sandboxes come from: a name, or a mapping with the name and options."""
    pipeline: Pipeline = Field(default_factory=Pipeline)
    """What is done around the trials."""


class ExperimentInPart(Experiment):
    """One that lacks what it needs, so that what it has can be checked; it is never run."""

    name: str = ""
    cases: tuple[CaseSpec, ...] = ()
    matrix: Matrix = Field(default_factory=lambda: Matrix.model_construct(agents=()))


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
    unread: bool = False
    """Whether there may be more commands, in a file that could not be read."""
    places: SkipValidation[Places] = Field(default_factory=Places, repr=False)
    """Where everything stands."""

    def place(self, path: str) -> Place:
        """Where a path of the experiment stands, such as `pipeline.per_trial[1].with.keys`.

        Also of a command (`commands.harbor.uses`) and a model (`llm_specs.opus.base_url`). Of a path that was not
        written, where the longest part of it stands.
        """
        return self.places.find(path, default=self.path)
