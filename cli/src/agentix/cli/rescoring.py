"""Plans and runs the scoring of what a run has kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentix.cli import exit_codes
from agentix.cli.fingerprint import plugin_use
from agentix.cli.locate import locate
from agentix.cli.output import Output
from agentix.cli.plan import Plan
from agentix.cli.request import PluginRequest, RolloutRequest
from agentix.cli.rescored_dataset import NoAgent, RescoredDataset
from agentix.cli.run import run_plan
from agentix.cli.select import Selection
from agentix.cli.wording import plural, reason
from agentix.errors import ConfigError, RunError
from agentix.interfaces import ChoosesScoring, Dataset, Drives, Earlier, HasContentHash
from agentix.models import Rollout, Trial, Usage
from agentix.records import Manifest, PlannedInstance, PluginUse, Record, Run, Session, load_run
from agentix.registry import label_of, load
from agentix.runner import RUN_LABEL, TRIAL_LABEL
from agentix.runner.earlier import find_earlier


@dataclass(frozen=True, kw_only=True)
class Rescoring:
    """What the user asked `agentix score` for."""

    what: str
    out: Path
    provider: str | None = None
    provider_options: Mapping[str, object] = dataclasses.field(default_factory=dict)
    dataset_options: Mapping[str, object] = dataclasses.field(default_factory=dict)
    patterns: tuple[str, ...] = ()
    n_concurrent: int = 8
    allow_failures: bool = False
    json: bool = False
    quiet: bool = False
    verbose: bool = False


def rescore(asked: Rescoring) -> int:
    """Score again, and return the exit code.

    Raises:
        AgentixError: It could not be done.
    """
    run, trial_id = locate(asked.what, out=asked.out)
    if trial_id is not None:
        raise RunError(f"{asked.what} is a trial; a run is wanted here", hint="Choose instances with --instance.")
    manifest = run.manifest
    if manifest is None:
        raise RunError(f"{run.path}: without a manifest.json it is not known which dataset this is")
    if not isinstance(manifest, Manifest):
        raise RunError(
            f"{run.path}: this is the run of an experiment",
            hint=f"Score what has failed again with: agentix run {manifest.file} --id {manifest.run_id} "
            "--retry VERIFIER_ERROR",
        )
    dataset_use = _restored("dataset", manifest.dataset, asked.dataset_options)
    provider_use = PluginRequest(ref=asked.provider or "", options=asked.provider_options)
    if asked.provider is None:
        provider_use = _restored("provider", manifest.provider, asked.provider_options)
    dataset = load("dataset", dataset_use.ref, dataset_use.options, where="--dataset")
    earlier = _earlier(dataset, run)
    if not earlier:
        _refuse_states(dataset, run)
    provider = load("provider", provider_use.ref, provider_use.options, where="--provider")
    instances = {i["instance_id"]: i for i in Selection(patterns=asked.patterns).apply(dataset.instances())}
    kept, left_out = _kept(run, instances, dataset, earlier, chosen=bool(asked.patterns))
    output = Output.stderr() if asked.json else Output.stdout()
    for line in left_out:
        output.line(f"not scored again: {line}")
    if not kept:
        output.line(f"{run.path}: there is nothing to score again")
        return exit_codes.FAILED
    plan = _plan(asked, run, manifest, kept, earlier, instances, dataset, provider, dataset_use, provider_use)
    old = {record.trial_id: record for record in kept}
    code = run_plan(plan, transform=_keeping(old, label_of(dataset)))
    if not asked.json:
        _compare(old, plan.path)
    return code


def _restored(kind: str, use: PluginUse, options: Mapping[str, object]) -> PluginRequest:
    """A plugin as the run had it; secret options were not kept and have to be given again."""
    merged: dict[str, object] = {**use.options, **options}
    for name, value in merged.items():
        if name not in options and isinstance(value, str) and value.startswith("sha256:"):
            raise ConfigError("the run did not keep this secret", where=f"--{kind}-opt {name}", hint="Give it again.")
    return PluginRequest(ref=use.ref, options=merged)


def _earlier(dataset: Dataset, run: Run) -> dict[str, Earlier]:
    """What a dataset with a flow of its own has kept, by trial."""
    if not isinstance(dataset, Drives):
        return {}
    found = {record.trial_id: find_earlier(run.layout.trial(record.trial_id)) for record in run}
    return {trial_id: earlier for trial_id, earlier in found.items() if earlier is not None}


def _refuse_states(dataset: Dataset, run: Run) -> None:
    if getattr(dataset, "answer", "patch") != "patch":
        raise RunError(
            f"{run.path}: answers of {label_of(dataset)} are the state that a sandbox was left in, and those sandboxes "
            "are gone",
            hint="Run the trials again under another --id.",
        )


def _kept(
    run: Run,
    instances: Mapping[str, dict[str, Any]],
    dataset: Dataset,
    earlier: Mapping[str, Earlier],
    *,
    chosen: bool,
) -> tuple[list[Record], list[str]]:
    """The records whose answer can be scored again, and why others cannot."""
    kept, left_out = [], []
    for record in run:
        instance = instances.get(record.case)
        why = None
        if instance is None:
            if chosen:
                continue
            why = "the dataset has no such instance any more"
        elif record.trial_id in earlier:
            pass
        elif getattr(dataset, "answer", "patch") != "patch":
            why = "its answer was the state of a sandbox, which is gone"
        elif isinstance(dataset, ChoosesScoring) and dataset.scoring(instance) != "fresh":
            why = "it was scored in the agent's own sandbox, which is gone"
        elif not run.patch(record.trial_id):
            if record.reward is not None:
                why = "it has no patch"
            else:
                why = f"there is no answer ({reason(record, longest=80)})"
        if why is None:
            kept.append(record)
        else:
            left_out.append(f"{record.trial_id}: {why}")
    return kept, left_out


def _plan(
    asked: Rescoring,
    run: Run,
    manifest: Manifest,
    kept: list[Record],
    earlier: Mapping[str, Earlier],
    instances: Mapping[str, dict[str, Any]],
    dataset: Dataset,
    provider: Any,
    dataset_use: PluginRequest,
    provider_use: PluginRequest,
) -> Plan:
    path = _next(run.layout.rescored)
    run_id = f"{run.path.name}-rescored-{path.name}"
    hashes = dataset if isinstance(dataset, HasContentHash) else None
    versions = {
        **manifest.versions,
        "dataset": label_of(dataset),
        "provider": label_of(provider),
    }
    cases = dict.fromkeys(record.case for record in kept)
    counts = {case: sum(record.case == case for record in kept) for case in cases}
    return Plan(
        request=RolloutRequest(
            dataset=dataset_use,
            agent=PluginRequest(ref=manifest.agent.ref),
            provider=provider_use,
            model=manifest.model,
            n_concurrent=asked.n_concurrent,
            allow_failures=asked.allow_failures,
            json=asked.json,
            quiet=asked.quiet,
            verbose=asked.verbose,
        ),
        path=path,
        dataset=RescoredDataset(
            dataset, {r.trial_id: run.patch(r.trial_id).decode("utf-8", "surrogateescape") for r in kept}, earlier
        ),
        agent=NoAgent(),
        provider=provider,
        agent_name=kept[0].agent,
        trials=tuple(
            Trial(
                trial_id=record.trial_id,
                instance=instances[record.case],
                index=record.index,
                model=record.llm_spec,
                position=position,
                labels={RUN_LABEL: run_id, TRIAL_LABEL: record.trial_id},
            )
            for position, record in enumerate(kept)
        ),
        manifest=Manifest(
            run_id=run_id,
            dataset=plugin_use("dataset", dataset_use, dataset),
            agent=manifest.agent,
            provider=plugin_use("provider", provider_use, provider),
            model=manifest.model,
            bundle=manifest.bundle,
            versions=versions,
            instances=tuple(
                PlannedInstance(
                    id=case,
                    sha256=None if hashes is None else hashes.content_hash(instances[case]),
                    trials=counts[case],
                )
                for case in cases
            ),
            sessions=(Session(versions=versions),),
        ),
        resume_with=f"agentix score {run.path}",
    )


def _next(rescored: Path) -> Path:
    numbers = [int(p.name) for p in rescored.iterdir() if p.name.isdigit()] if rescored.is_dir() else []
    number = max(numbers, default=0) + 1
    while True:
        try:
            (rescored / str(number)).mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return rescored / str(number)


def _keeping(old: Mapping[str, Record], label: str) -> Callable[[Rollout, Trial], Rollout]:
    """What was measured of the agent stays with the answer that is scored again."""

    def transform(rollout: Rollout, trial: Trial) -> Rollout:
        before = old[trial.trial_id]
        return dataclasses.replace(
            rollout,
            ended=before.ended,
            usage=None if before.usage is None else Usage(**before.usage.model_dump()),
            agent_version=before.agent_version,
            image_digest=rollout.image_digest or before.image_digest,
            notes=(*rollout.notes, f"scored again with {label}"),
        )

    return transform


def _compare(old: Mapping[str, Record], path: Path) -> None:
    output = Output.stdout()
    changed = 0
    for record in load_run(path):
        before = old[record.trial_id]
        if (before.reward, before.failure_code) != (record.reward, record.failure_code):
            changed += 1
            output.line(f"changed: {record.trial_id}: {reason(before, longest=60)} -> {reason(record, longest=60)}")
    output.line(f"{plural(changed, 'result')} of {len(old)} changed")
