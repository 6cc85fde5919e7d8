"""Everything that a run is made of, found and checked before anything runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from agentix.api import AgentixError, Case, Dataset, SandboxProvider, UsageError, load
from agentix.cli.api import PluginRequest, PluginUse, default_provider, plugin_use
from agentix.plugins.experiments.commands import Command
from agentix.plugins.experiments.documents import Problem, Submission, problem
from agentix.plugins.experiments.engine.agents import Agents, untold
from agentix.plugins.experiments.engine.models import Keys, llm_of
from agentix.plugins.experiments.engine.request import RunRequest
from agentix.plugins.experiments.plan import AgentKind
from agentix.plugins.experiments.publishing import learn
from agentix.plugins.experiments.steps import Checked, ResolvedPipeline, ResolvedStep, check_file, plugin_problem


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What the file, the command line and this machine give."""

    submission: Submission
    commands: Mapping[str, Command]
    pipeline: ResolvedPipeline
    executor: ResolvedStep
    provider: SandboxProvider | None
    """`None` where the executor brings its own."""
    provider_use: PluginUse | None
    fresh_provider: Callable[[], SandboxProvider] | None
    """Makes the provider once more, to ask it what may close what it holds."""
    kinds: tuple[AgentKind, ...]
    """Of the agents of the matrix, in its order."""
    agents: Agents
    keys: Keys
    datasets: Datasets
    notices: tuple[str, ...] = ()

    @property
    def native(self) -> bool:
        """Whether trials run in sandboxes of ours."""
        return self.provider is not None


class Datasets:
    """The datasets of the cases, each made once."""

    def __init__(self) -> None:
        self._made: dict[str, Dataset] = {}

    def of(self, case: Case) -> Dataset:
        """The dataset that sets a case up and scores it.

        Raises:
            UsageError: There is none, or its options are wrong.
        """
        options: dict[str, Any] = dict(case.options)
        key = f"{case.dataset}\0{sorted(options.items())!r}"
        if key not in self._made:
            self._made[key] = load("dataset", case.dataset, options, where=f"case {case.label}", typed=options)
        return self._made[key]


def load_parts(request: RunRequest) -> Parts:
    """Read the file and find everything that it names.

    Raises:
        ExperimentError: Something is wrong with it; all of it is told.
        UsageError: Something on the command line is wrong, or a pinned file is not what it is pinned to.
    """
    checked = check_file(request.file, commands=request.commands, executor=request.executor)
    submission, commands, executor, kinds = checked.submission, checked.commands, checked.executor, checked.kinds
    native, notices = checked.native, checked.notices
    keys = Keys()
    keys.expect(submission.llm_specs.values())
    agents = Agents(commands, keys)
    problems = list(_agent_problems(submission, kinds, agents, native=native))
    provider, use, fresh = _provider(request, submission, executor, problems) if native else (None, None, None)
    if not native and request.provider is not None:
        raise UsageError(f"--provider {request.provider}: {executor.plugin} brings its own sandboxes")
    problems += checked.case_problems(every=not request.cases and request.limit is None)
    checked.raise_problems(problems)
    notices = (*notices, *_overridden(request, submission, executor))
    if not native and submission.experiment.provider is not None:
        notices = (*notices, f"provider: {executor.plugin} brings its own sandboxes; what the file says is not used")
    told = [
        *notices,
        *_untold(submission, kinds, native=native),
        *_unpriced(request, submission),
        *learn_secrets(checked, keys, request.provider_options),
    ]
    return Parts(
        submission=submission,
        commands=commands,
        pipeline=checked.pipeline,
        executor=executor,
        provider=provider,
        provider_use=use,
        fresh_provider=fresh,
        kinds=kinds,
        agents=agents,
        keys=keys,
        datasets=Datasets(),
        notices=tuple(dict.fromkeys(told)),
    )


def learn_secrets(
    checked: Checked, keys: Keys, provider_options: Mapping[str, object] = MappingProxyType({})
) -> tuple[str, ...]:
    """Have everything that is known to be secret looked for, where something is published; says what is not."""
    redact, experiment = checked.pipeline.redact, checked.submission.experiment
    if redact is None:
        return ()
    named = redact.given.get("variables")
    options: list[tuple[str, Any]] = [
        (f"matrix.agents[{number}].options", agent.options) for number, agent in enumerate(experiment.matrix.agents)
    ]
    options += [(f"cases[{number}].options", case.options) for number, case in enumerate(experiment.cases)]
    options += [] if experiment.provider is None else [("provider", experiment.provider.options)]
    options.append(("--provider-opt", provider_options))
    return learn(
        keys.masks,
        host_env=os.environ,
        variables=[name for name in named if isinstance(name, str)] if isinstance(named, list | tuple) else (),
        options=options,
    )


def _agent_problems(
    submission: Submission, kinds: tuple[AgentKind, ...], agents: Agents, *, native: bool
) -> Iterator[Problem]:
    for number, (spec, kind) in enumerate(zip(submission.experiment.matrix.agents, kinds, strict=True)):
        where = f"matrix.agents[{number}]"
        if kind.kind == "command":
            try:
                agents.use(spec)
                if native:
                    agents.load(spec, None, where=where)
            except AgentixError as error:
                yield problem(submission, where, str(error).removeprefix(f"{where}: "))


def _untold(submission: Submission, kinds: tuple[AgentKind, ...], *, native: bool) -> Iterator[str]:
    experiment = submission.experiment
    for spec, kind in zip(experiment.matrix.agents, kinds, strict=True):
        if not native or kind.kind != "plugin" or kind.deterministic:
            continue
        for name in (spec.llm_spec,) if spec.llm_spec else experiment.matrix.llm_specs:
            if name in submission.llm_specs and (keys := untold(spec, llm_of(submission.llm_specs[name]))):
                yield f"agent {spec.name}: it has no options for {', '.join(keys)} of {name} and is told the model only"


def _unpriced(request: RunRequest, submission: Submission) -> Iterator[str]:
    """Models of which only an agent can tell what they cost, where there is a limit to it."""
    experiment = submission.experiment
    given = {"--max-cost-usd": request.max_cost_usd, "limits.max_cost_usd": experiment.limits.max_cost_usd}
    limits = " and ".join(name for name, value in given.items() if value is not None)
    used = {*experiment.matrix.llm_specs, *(agent.llm_spec for agent in experiment.matrix.agents)}
    for name, spec in submission.llm_specs.items() if limits else ():
        if name in used and (spec.price is None or spec.price.input is None or spec.price.output is None):
            yield (
                f"model {name} has no whole price, so {limits} can count only what the agent itself says that it cost; "
                "give `price`, or limit max_tokens"
            )


def _overridden(request: RunRequest, submission: Submission, executor: ResolvedStep) -> Iterator[str]:
    """What the file says of a provider where the command line has chosen an executor with one of its own."""
    spec, fixed = submission.experiment.provider, getattr(executor.step, "provider", None)
    if request.executor is not None and fixed is not None and spec is not None and spec.name != fixed:
        yield f"provider: {executor.label} (--executor) runs on {fixed}; what the file says of {spec.name} is not used"


def _provider(
    request: RunRequest, submission: Submission, executor: ResolvedStep, problems: list[Problem]
) -> tuple[SandboxProvider | None, PluginUse | None, Callable[[], SandboxProvider] | None]:
    spec = submission.experiment.provider
    fixed: str | None = getattr(executor.step, "provider", None)
    if fixed is not None:
        if request.provider not in (None, fixed):
            raise UsageError(
                f"--provider {request.provider}: {executor.label} runs trials on the provider {fixed} only",
                hint="Leave one of the two out; --executor rollout runs on any provider.",
            )
        ref, options, where = fixed, {}, "--provider"
        if spec is not None and spec.name == fixed:
            options, where = dict(spec.options), "provider"
        elif spec is not None and request.executor is None:
            why = f"the step {executor.label} runs trials on the provider {fixed} only, and not on {spec.name}"
            problems.append(problem(submission, "provider", f"{why}; leave one out, or use the step rollout"))
    elif request.provider is not None:
        ref, options, where = request.provider, {}, "--provider"
    elif spec is not None:
        ref, options, where = spec.name, dict(spec.options), "provider"
    else:
        ref, options, where = default_provider(), {}, "--provider"
    typed = options.keys() - request.provider_options.keys()
    options |= request.provider_options

    def make() -> SandboxProvider:
        return load("provider", ref, options, where=where, typed=typed)

    try:
        provider = make()
    except AgentixError as error:
        if where != "provider":
            raise
        told = plugin_problem(submission, error, where=where, path=where, options="provider.options")
        problems.append(told)
        return None, None, None
    return provider, plugin_use("provider", PluginRequest(ref=ref, options=options), provider), make
