"""What is asked of the Harbor CLI for one trial: its arguments, its configuration and its environment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentix.api import LLM, AgentUse, EnvFailed, Limits, TimeoutRule, TrialWork
from agentix.plugins.datasets.harbor.executor_inputs import HarborInputs
from agentix.plugins.datasets.harbor.task import Task

CONFIG_FILE = "job.yaml"
_AGENT_SETUP_S = 360.0
_SLACK_S = 600.0
_NOT_FOR_HARBOR = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
"""Variables of this interpreter, which would make another one load our libraries."""
_PROVIDERS: Mapping[str, str] = {"google": "gemini"}
"""What Harbor calls a provider of models, where that differs."""
_BASE_URLS: Mapping[str, tuple[str, ...]] = {"gemini": ("GOOGLE_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_BASE")}
_SPENDING = ("max_tool_calls", "max_turns", "max_tokens", "max_cost_usd")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One `harbor run`."""

    flags: tuple[str, ...]
    """Those that say which agent, and how long things may take."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """What no flag can say."""
    timeout_s: float | None
    """Seconds for all of it."""


def refusal(use: AgentUse, limits: Limits | None) -> str | None:
    """Why Harbor cannot run this agent within these limits; `None` where it can."""
    if use.command is not None:
        return (
            f"the agent {use.name} is the configured command agent_{use.ref}, which Harbor cannot run: it brings its "
            "own agents; run it with the executor rollout, or name one of Harbor's"
        )
    if use.ref.endswith(".py") or "/" in use.ref:
        return f"the agent {use.name} is a Python file of this installation, which Harbor cannot run"
    asked = [name for name in _SPENDING if limits is not None and getattr(limits, name) is not None]
    if asked:
        return f"Harbor cannot hold an agent to limits.{', limits.'.join(asked)}; leave them out, or use rollout"
    return None


def ask(work: TrialWork, task: Task, inputs: HarborInputs) -> Request:
    """What to ask for one trial.

    Raises:
        EnvFailed: Harbor cannot run it as it is asked for.
    """
    why = refusal(work.agent_use, work.limits)
    if why is not None:
        raise EnvFailed(why, detail="unsupported")
    agent_rule = _rule(work, "agent", own=inputs.agent_timeout, limits=work.limits, times=inputs.timeout_multiplier)
    score_rule = _rule(work, "score", own=inputs.verifier_timeout, limits=work.limits, times=inputs.timeout_multiplier)
    build_rule = _rule(work, "create", own=None, limits=work.limits, times=inputs.timeout_multiplier)
    stages = task.stages
    agent = _Times.of([stage.agent_timeout_s for stage in stages], agent_rule)
    score = _Times.of([stage.verifier_timeout_s for stage in stages], score_rule)
    build = _Times.of([task.file.environment.build_timeout_sec], build_rule)
    flags = [
        *agent.flag("--agent-timeout-multiplier"),
        *score.flag("--verifier-timeout-multiplier"),
        *build.flag("--environment-build-timeout-multiplier"),
    ]
    name, model = work.agent_use.ref, model_name(work.llm)
    config: dict[str, Any] = {}
    if score.overrides:
        config["verifier"] = score.overrides
    if agent.overrides:
        named = {"name": name, "model_name": model}
        config["agents"] = [{key: value for key, value in named.items() if value} | agent.overrides]
    else:
        flags = ["-a", name, *(["-m", model] if model else []), *flags]
    options = {**({} if work.llm is None else work.llm.parameters), **work.agent_use.options}
    flags += [word for key, value in options.items() for word in ("--ak", f"{key}={json.dumps(value, default=str)}")]
    flags += inputs.args
    return Request(
        flags=tuple(flags), config=config, timeout_s=inputs.timeout or _altogether(task, agent, score, build)
    )


def argv(
    request: Request, inputs: HarborInputs, *, task_dir: Path, out: Path, job: str, config: Path | None
) -> list[str]:
    """The words of the command; no key is among them."""
    first = ["-c", str(config)] if config is not None else []
    where = ["-p", str(task_dir), "-e", inputs.environment, "-o", str(out), "--job-name", job]
    return [
        *inputs.command,
        "run",
        *first,
        *where,
        "-k",
        "1",
        "-n",
        "1",
        "--max-retries",
        "0",
        "-q",
        "-y",
        *request.flags,
    ]


def environment(host: Mapping[str, str], llm: LLM | None, key: str | None) -> dict[str, str]:
    """Harbor's variables: this machine's, the model's address and its key, and no telemetry."""
    env = {name: value for name, value in host.items() if name not in _NOT_FOR_HARBOR}
    if llm is not None:
        provider = _provider(llm) or "openai"
        prefix = "".join(c if c.isalnum() else "_" for c in provider.upper())
        if llm.base_url is not None:
            env |= dict.fromkeys(_BASE_URLS.get(provider, (f"{prefix}_BASE_URL", f"{prefix}_API_BASE")), llm.base_url)
        if key is not None:
            env[f"{prefix}_API_KEY"] = key
    return {**env, "HARBOR_TELEMETRY": "off", "GIT_TERMINAL_PROMPT": "0"}


def model_name(llm: LLM | None) -> str | None:
    """A model as Harbor names it: after its provider, unless it is named so already."""
    if llm is None:
        return None
    provider = _provider(llm)
    return llm.model if provider is None or "/" in llm.model else f"{provider}/{llm.model}"


def _provider(llm: LLM) -> str | None:
    if llm.api is None and "/" in llm.model:
        return llm.model.partition("/")[0]
    return None if llm.api is None else _PROVIDERS.get(llm.api, llm.api)


def _rule(work: TrialWork, phase: Any, *, own: float | None, limits: Limits | None, times: float) -> TimeoutRule:
    rule = work.timeouts.get(phase, TimeoutRule())
    override = own if own is not None else rule.override
    if override is None and limits is not None and f"{phase}_s" in limits.model_fields_set:
        override = limits.seconds(phase)
    return TimeoutRule(override=override, maximum=rule.maximum, multiplier=rule.multiplier * times)


@dataclass(frozen=True, kw_only=True)
class _Times:
    """How long a phase may take, and how Harbor is told so."""

    seconds: tuple[float | None, ...]
    """Of each stage."""
    multiplier: float
    overrides: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, declared: Iterable[float | None], rule: TimeoutRule) -> _Times:
        declared = list(declared)
        seconds = tuple(rule.apply(value) for value in declared)
        if rule.override is None and rule.maximum is None:
            return cls(seconds=seconds, multiplier=rule.multiplier)
        first, now = declared[0], seconds[0]
        # As a multiple, it takes a flag only, which every version of Harbor has.
        if len(set(declared)) == 1 and first is not None and now is not None:
            return cls(seconds=seconds, multiplier=now / first)
        given = {"override_timeout_sec": rule.override, "max_timeout_sec": rule.maximum}
        overrides = {key: value for key, value in given.items() if value is not None}
        return cls(seconds=seconds, multiplier=rule.multiplier, overrides=overrides)

    def flag(self, name: str) -> list[str]:
        return [] if self.multiplier == 1 else [name, repr(self.multiplier)]


def _altogether(task: Task, *phases: _Times) -> float | None:
    times = [seconds for phase in phases for seconds in phase.seconds]
    if None in times:
        return None
    check = task.file.environment.healthcheck
    waiting = 0.0 if check is None else check.longest_s
    return sum(seconds for seconds in times if seconds is not None) + waiting + _AGENT_SETUP_S + _SLACK_S
