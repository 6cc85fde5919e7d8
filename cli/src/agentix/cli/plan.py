"""From a request to the trials and the manifest of a run."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from agentix.cli.fingerprint import plugin_use
from agentix.cli.limits import MOST_TRIALS
from agentix.cli.request import RolloutRequest
from agentix.errors import AgentixError, DatasetError, RunError, UsageError
from agentix.interfaces import Agent, Dataset, HasContentHash, SandboxProvider
from agentix.models import Trial, slug, trial_id
from agentix.records import BundleUse, Manifest, PlannedInstance, Session, check_run_id
from agentix.registry import label_of, load, plugins
from agentix.registry.references import FileRef, ModuleRef, parse_reference
from agentix.runner import RUN_LABEL, TRIAL_LABEL

FALLBACK_PROVIDER = "local"
PREFERRED_PROVIDER = "docker"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything a run needs to start."""

    request: RolloutRequest
    path: Path
    dataset: Dataset
    agent: Agent
    provider: SandboxProvider
    agent_name: str
    trials: tuple[Trial, ...]
    """Instance by instance, each with its trials from 1."""
    manifest: Manifest
    notices: tuple[str, ...] = ()
    resume_with: str = ""
    """What to type to run what is missing."""


def make_plan(request: RolloutRequest) -> Plan:
    """Load the plugins, choose the instances and lay the trials out. Nothing is written.

    Raises:
        UsageError: Something that was given is wrong.
    """
    bundle = None if request.bundle is None else _bundle(request.bundle)
    dataset = load("dataset", request.dataset.ref, request.dataset.options, where="--dataset")
    agent = load("agent", request.agent.ref, request.agent.options, where="--agent")
    provider = load("provider", request.provider.ref, request.provider.options, where="--provider")
    notices: list[str] = []
    count = request.trials
    if getattr(agent, "deterministic", False) is True and count > 1 and not request.trials_explicit:
        notices.append(f"{request.agent.ref} runs once an instance, not {count} times: it is deterministic")
        count = 1
    with _blaming(dataset, "instances"), _noting(notices):
        instances = request.selection.apply(dataset.instances())
    if (asked := len(instances) * count) > MOST_TRIALS:
        what = f"--trials {count}: {asked} trials of {len(instances)} instances, and a run has at most {MOST_TRIALS}"
        raise UsageError(what, hint="Give fewer --trials, or choose instances with --instance, --limit or --sample.")
    hashes = dataset if isinstance(dataset, HasContentHash) else None
    with _blaming(dataset, "content_hash"):
        planned = tuple(
            PlannedInstance(id=i["instance_id"], sha256=None if hashes is None else hashes.content_hash(i))
            for i in instances
        )
    name = agent_name(request.agent.ref)
    run_id, path = _place(request, name)
    trials = tuple(
        Trial(
            trial_id=trial_id(instance["instance_id"], name, index=index),
            instance=instance,
            index=index,
            model=request.model,
            position=number * count + index - 1,
            labels={RUN_LABEL: run_id, TRIAL_LABEL: trial_id(instance["instance_id"], name, index=index)},
        )
        for number, instance in enumerate(instances)
        for index in range(1, count + 1)
    )
    _refuse_twins(trials, request.out)
    versions = {
        "agentix-rollouts-core": version("agentix-rollouts-core"),
        "dataset": label_of(dataset),
        "agent": label_of(agent),
        "provider": label_of(provider),
    }
    if isinstance(own := getattr(agent, "version", None), str):
        versions["agent version"] = own
    manifest = Manifest(
        run_id=run_id,
        dataset=plugin_use("dataset", request.dataset, dataset),
        agent=plugin_use("agent", request.agent, agent),
        provider=plugin_use("provider", request.provider, provider),
        model=request.model,
        bundle=bundle,
        trials=count,
        max_attempts=request.max_attempts,
        limits=request.limits.model_dump(exclude_unset=True),
        timeouts={str(phase): rule for phase, rule in request.timeouts.items()},
        versions=versions,
        instances=planned,
        sessions=(Session(versions=versions),),
    )
    return Plan(
        request=request,
        path=path,
        dataset=dataset,
        agent=agent,
        provider=provider,
        agent_name=name,
        trials=trials,
        manifest=manifest,
        notices=tuple(notices),
        resume_with=f"--id {run_id}",
    )


@contextmanager
def _blaming(dataset: Dataset, method: str) -> Iterator[None]:
    """Name the dataset in what its own code raises."""
    try:
        yield
    except AgentixError:
        raise
    except Exception as error:
        raise DatasetError(
            f"the dataset {label_of(dataset)} failed in {method}: {type(error).__name__}: {error}",
            hint="Nothing was run; -v shows where it failed.",
        ) from error


@contextmanager
def _noting(notices: list[str]) -> Iterator[None]:
    """Take what is warned of meanwhile for notices, which are told with the run and kept in its log."""
    handler = _Notices(notices)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


class _Notices(logging.Handler):
    def __init__(self, notices: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._notices = notices

    def emit(self, record: logging.LogRecord) -> None:
        self._notices.append(record.getMessage())


def default_provider() -> str:
    """`docker` where that plugin is installed, with an engine or without, else `local`."""
    names = {info.name for info in plugins("provider")}
    return PREFERRED_PROVIDER if PREFERRED_PROVIDER in names else FALLBACK_PROVIDER


def agent_name(ref: str) -> str:
    """The short name of an agent in trial ids and records.

    Raises:
        ConfigError: It is no reference.
    """
    parsed = parse_reference("agent", ref, where="--agent")
    if isinstance(parsed, FileRef):
        return parsed.path.stem if parsed.attr == "agent" else parsed.attr
    if isinstance(parsed, ModuleRef):
        return parsed.module.rpartition(".")[2] if parsed.attr == "agent" else parsed.attr
    return parsed.name


def _bundle(ref: str) -> BundleUse:
    from agentix.bundle import find_bundle

    return BundleUse(ref=ref, digest=find_bundle(ref).digest)


def _place(request: RolloutRequest, name: str) -> tuple[str, Path]:
    if request.run_id is not None:
        run_id = check_run_id(request.run_id)
        return run_id, request.out / run_id
    stem = time.strftime("%Y%m%d-%H%M%S") + f"-{slug(name, longest=40)}"
    for run_id in _numbered(stem):
        path = request.out / run_id
        if request.dry_run:
            if not path.exists():
                return run_id, path
            continue
        try:
            request.out.mkdir(parents=True, exist_ok=True)
            path.mkdir()
        except FileExistsError:
            if not request.out.is_dir():
                raise RunError(f"--out: {request.out} is no directory") from None
            continue
        except OSError as error:
            raise RunError(f"--out: {request.out} cannot be written: {error.strerror or error}") from None
        return run_id, path
    raise AssertionError


def _numbered(stem: str) -> Iterator[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem}-{number}"
        number += 1


def _refuse_twins(trials: tuple[Trial, ...], out: Path) -> None:
    """Refuse ids that only their case tells apart, where the disk cannot tell them apart."""
    if not _ignores_case(out):
        return
    seen: dict[str, str] = {}
    for trial in trials:
        first = seen.setdefault(trial.trial_id.lower(), trial.trial_id)
        if first != trial.trial_id:
            raise DatasetError(
                f"{first} and {trial.trial_id} would have one directory, because {out} does not tell case apart",
                hint="Give one of the instances another id, or another --out.",
            )


def _ignores_case(path: Path) -> bool:
    try:
        existing = next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())
        swapped = Path(str(existing).swapcase())
        return swapped != existing and swapped.exists() and swapped.samefile(existing)
    except OSError:
        # It cannot be looked at, and will not be written to either.
        return False
