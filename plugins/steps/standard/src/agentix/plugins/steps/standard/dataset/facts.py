"""What a card tells of a run, gathered while its rows are written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentix.api import Record, Run, RunNumbers, StepContext, load_run
from agentix.plugins.steps.standard.counted import counted
from agentix.plugins.steps.standard.origin import origin
from agentix.plugins.steps.standard.results import Results, record_of, sort_key

AddRow = Callable[[Record, bool], Mapping[str, Any]]
"""Adds the row of a trial, of which what it left may be published too or not; returns it."""


@dataclass(kw_only=True)
class Facts:
    """One run."""

    run_id: str
    experiment: str
    manifest: Mapping[str, Any]
    numbers: RunNumbers = field(default_factory=RunNumbers)
    rows: int = 0
    dropped: int = 0
    """Trials that are kept from publication."""
    infra_left_out: int = 0
    """Trials that have no row because nothing was measured, for no fault of the agent."""
    too_large: int = 0
    """Rows that lack a patch or a trajectory which there is."""
    outcomes: Counter[str] = field(default_factory=Counter)
    redaction: Counter[str] = field(default_factory=Counter)
    agent_versions: dict[str, set[str]] = field(default_factory=dict)

    @property
    def elsewhere(self) -> int:
        """Planned trials of which nothing is known here: they did not run, or could not be redacted."""
        return self.numbers.total.unrun

    @property
    def cases(self) -> list[Mapping[str, Any]]:
        """As the manifest has them, each with what the gate found."""
        return [{**case, "gate": list(self._gate(str(case.get("label", ""))))} for case in self._listed("cases")]

    @property
    def has_admission(self) -> bool:
        """Whether the run checked its cases with the step `admission`."""
        return any(step.get("uses") == "admission" for step in self._listed("steps"))

    def setup(self) -> Iterator[tuple[str, str]]:
        """What was run with what."""
        manifest = self.manifest
        if executor := manifest.get("executor"):
            yield "executor", f"{executor.get('label', '')} ({executor.get('kind', '')})"
        if provider := manifest.get("provider"):
            yield "provider", _with_options(provider)
        for row in self._listed("matrix"):
            model = f" with {row['llm_spec']}" if row.get("llm_spec") else ""
            versions = ", ".join(sorted(self.agent_versions.get(str(row.get("agent")), ())))
            said = f"{_with_options(row.get('use') or {})}{f', version {versions}' if versions else ''}"
            yield (
                f"agent {row.get('agent', '')}{model}",
                f"{said}, {counted(row.get('trials', 0), 'trial')} of each case",
            )
        for name, spec in (manifest.get("llm_specs") or {}).items():
            parameters = f" {_compact(spec['parameters'])}" if spec.get("parameters") else ""
            yield f"model {name}", " ".join(str(spec[key]) for key in ("api", "model") if spec.get(key)) + parameters
        for name, limit in (manifest.get("limits") or {}).items():
            yield f"limit {name}", f"{limit:g} s" if name == "timeout" else str(limit)
        for step in self._listed("steps"):
            yield f"step {step.get('scope', '')}", f"{step.get('label', '')} ({step.get('kind', '')})"
        for name, command in (manifest.get("commands") or {}).items():
            yield f"command {name}", f"{command.get('form', '')}, sha256 {command.get('sha256', '')}"
        yield from origin(manifest)
        for name, version in (manifest.get("versions") or {}).items():
            yield f"version of {name}", str(version)
        for change in manifest.get("mixed") or ():
            yield "changed between trials", str(change)

    def _listed(self, key: str) -> list[Mapping[str, Any]]:
        return list(self.manifest.get(key) or ())

    def _gate(self, label: str) -> Iterator[str]:
        start = f"case {label}: "
        for line in self.manifest.get("gate") or ():
            if str(line).startswith(start):
                yield str(line).removeprefix(start)
        if label in (self.manifest.get("rejected") or {}):
            yield f"left out: {self.manifest['rejected'][label]}"


def gather(
    ctx: StepContext, *, include_dropped: bool, include_infra_failures: bool, check: Callable[[], None]
) -> tuple[Facts, Callable[[AddRow], None]]:
    """Prepare to read a run once.

    Returns:
        What is known of it, and a function that reads it, adds its rows and completes what is known.
    """
    run = load_run(ctx.run_dir) if _has_run(ctx) else None
    facts = Facts(
        run_id=ctx.run_id,
        experiment=ctx.secrets.text(ctx.experiment or ctx.run_id),
        manifest=ctx.secrets.within(_manifest(run, ctx)),
    )

    def counted(add: AddRow) -> Iterator[Record]:
        for record, published in _records(ctx):
            check()
            outcome = _count(facts, record, published)
            infra = outcome.startswith("not measured")
            facts.infra_left_out += infra and not include_infra_failures and (published or include_dropped)
            if (published or include_dropped) and (include_infra_failures or not infra):
                row = add(record, published)
                facts.rows += 1
                facts.too_large += any(
                    row[f"{name}_bytes"] is not None and row[name] is None for name in ("patch", "trajectory")
                )
            yield record

    def read(add: AddRow) -> None:
        records = counted(add)
        facts.numbers = RunNumbers.of(records) if run is None else RunNumbers.of_run(run, records=records)

    return facts, read


def _count(facts: Facts, record: Record, published: bool) -> str:
    facts.dropped += not published
    if record.reward is not None:
        outcome = "resolved" if record.resolved else "not resolved"
    elif record.failure_code is not None and record.failure_code.is_agents:
        outcome = f"failed by the agent: {record.failure_code}"
    else:
        outcome = f"not measured: {record.failure_code}"
    facts.outcomes[outcome] += 1
    facts.redaction.update(record.redaction)
    if record.agent_version:
        facts.agent_versions.setdefault(record.agent, set()).add(record.agent_version)
    return outcome


def _records(ctx: StepContext) -> Iterator[tuple[Record, bool]]:
    for _, line in Results(ctx.run_dir).lines():
        yield record_of(ctx.secrets.within(json.loads(line))), True
    withheld = [ctx.secrets.within(dict(data)) for data in ctx.withheld()]
    for data in sorted(withheld, key=sort_key):
        yield record_of({**data, "dropped": True}), False


def _has_run(ctx: StepContext) -> bool:
    return any((ctx.run_dir / name).exists() for name in ("results.jsonl", "manifest.json"))


def _manifest(run: Run | None, ctx: StepContext) -> Mapping[str, Any]:
    if run is not None and run.manifest is not None:
        return run.manifest.model_dump(mode="json")
    return dict(ctx.subject)


def _with_options(use: Mapping[str, Any]) -> str:
    options = ", ".join(f"{key}={_compact(value)}" for key, value in (use.get("options") or {}).items())
    return f"{use.get('ref', '')}" + (f" ({options})" if options else "")


def _compact(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
