"""The manifest of a run: what was asked for, resolved to what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

from agentix.api import Case, plugin_label
from agentix.cli.api import (
    AgentRow,
    CaseUse,
    CommandUse,
    ExperimentManifest,
    PluginRequest,
    PluginUse,
    Session,
    StepUse,
    plugin_use,
)
from agentix.plugins.experiments.documents import LLMSpec
from agentix.plugins.experiments.engine.models import NEEDS_KEY, llm_of
from agentix.plugins.experiments.engine.parts import Parts
from agentix.plugins.experiments.plan import Plan
from agentix.plugins.experiments.plan.agents import COMMAND_PREFIX
from agentix.plugins.experiments.steps import ResolvedStep, fingerprint_parts


def make_manifest(
    parts: Parts,
    cases: Sequence[Case],
    plan: Plan,
    *,
    run_id: str,
    found: Mapping[str, str | None] = MappingProxyType({}),
) -> ExperimentManifest:
    """What is to be run. Paths, options and hashes are in it, secrets are not.

    Args:
        parts: What the run is made of.
        cases: Its cases.
        plan: Its trials.
        run_id: Its name.
        found: By label, the hashes with which repaired cases were found.
    """
    experiment = parts.submission.experiment
    versions = _versions(parts, cases)
    return ExperimentManifest(
        run_id=run_id,
        experiment=experiment.name,
        file=str(parts.submission.path),
        file_sha256=parts.submission.sha256,
        executor=step_use(parts.executor),
        provider=parts.provider_use,
        limits=experiment.limits.model_dump(exclude_none=True),
        max_attempts=experiment.max_attempts,
        retry_on=tuple(experiment.retry_on or ()),
        cases=tuple(_case_use(case, found.get(case.label)) for case in cases),
        matrix=_matrix(parts, plan),
        llm_specs={name: _llm(spec) for name, spec in parts.submission.llm_specs.items()},
        commands={name: CommandUse(form=c.form, sha256=c.fingerprint()) for name, c in parts.commands.items()},
        steps=tuple(step_use(step) for step in parts.pipeline.steps if step is not parts.executor),
        planned=len(plan.trials),
        versions=versions,
        sessions=(Session(versions=versions),),
    )


def step_use(step: ResolvedStep) -> StepUse:
    """A step as the manifest knows it."""
    return StepUse(
        scope=step.scope.value,
        label=step.label,
        uses=step.spec.uses,
        kind=step.kind,
        fingerprint=step.fingerprint(),
        parts=fingerprint_parts(step),
    )


def _case_use(case: Case, found: str | None) -> CaseUse:
    # The place of a snapshot is this run's own business; the hash says what is in it.
    options = {key: value for key, value in case.options.items() if value != str(case.directory)}
    return CaseUse(
        name=case.name,
        label=case.label,
        source=case.source,
        dataset=PluginUse.of(case.dataset, options),
        sha256=case.sha256,
        found_sha256=found,
        pin=dict(case.pin),
    )


def _matrix(parts: Parts, plan: Plan) -> tuple[AgentRow, ...]:
    rows: dict[tuple[str, str | None], AgentRow] = {}
    for trial in plan.trials:
        name, llm = trial.agent.id or trial.agent.name, None if trial.llm is None else trial.llm.name
        row = rows.get((name, llm))
        if row is None:
            command = parts.commands.get(COMMAND_PREFIX + trial.agent.name)
            options = dict(trial.agent.options)
            if command is not None:
                use = PluginUse.of(trial.agent.name, options, sha256=command.fingerprint())
            elif parts.native:
                agent = parts.agents.load(trial.agent, None, where=f"agent {name}")
                use = plugin_use("agent", PluginRequest(ref=trial.agent.name, options=options), agent)
            else:
                use = PluginUse.of(trial.agent.name, options)
            rows[name, llm] = AgentRow(agent=name, llm_spec=llm, use=use, trials=trial.index)
        elif trial.index > row.trials:
            rows[name, llm] = row.model_copy(update={"trials": trial.index})
    return tuple(rows.values())


def _llm(spec: LLMSpec) -> dict[str, Any]:
    data = asdict(llm_of(spec))
    if spec.api_key_env is not None or spec.api_key_cmd is not None:
        data[NEEDS_KEY] = True
    return {key: value for key, value in data.items() if key != "name" and value not in (None, {})}


def _versions(parts: Parts, cases: Sequence[Case]) -> dict[str, str]:
    found = {
        "agentix-rollouts-core": version("agentix-rollouts-core"),
        "agentix-rollouts-experiments": version("agentix-rollouts-experiments"),
    }
    if parts.provider is not None:
        found["provider"] = plugin_label(parts.provider)
        for case in {case.dataset: case for case in cases}.values():
            found[f"dataset {case.dataset}"] = plugin_label(parts.datasets.of(case))
    for spec, kind in zip(parts.submission.experiment.matrix.agents, parts.kinds, strict=True):
        if kind.kind == "plugin":
            found[f"agent {spec.name}"] = kind.label
    for step in (parts.executor, *parts.pipeline.steps):
        found[f"step {step.spec.uses}"] = step.plugin
    return found
