"""What a report is made of, gathered in one pass over the results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentix.api import Record, Run, RunError, RunNumbers, StepContext, load_run
from agentix.plugins.steps.standard.origin import origin
from agentix.plugins.steps.standard.pinned import pinned

MOST = 50
"""How many of a kind are listed; the others are counted."""


@dataclass(kw_only=True)
class Listed:
    """The first of many."""

    shown: list[tuple[str, ...]] = field(default_factory=list)
    total: int = 0

    def add(self, *cells: str) -> None:
        """One more."""
        self.total += 1
        if len(self.shown) < MOST:
            self.shown.append(cells)

    @property
    def hidden(self) -> int:
        """How many are not listed."""
        return self.total - len(self.shown)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One run."""

    run_id: str
    experiment: str
    created_at: str
    """When the run was started for the first time."""
    incomplete: str | None
    numbers: RunNumbers
    pass_at: float | None = None
    unmeasured: Listed = field(default_factory=Listed)
    """Trial, code, message."""
    step_failures: Listed = field(default_factory=Listed)
    """Trial or nothing, step, message."""
    step_notes: Listed = field(default_factory=Listed)
    """Trial, step, what is noted of one that did not pass and was let be."""
    gate: tuple[str, ...] = ()
    rejected: tuple[tuple[str, str], ...] = ()
    cases: tuple[tuple[str, str, str], ...] = ()
    """Label, hash, pin."""
    setup: tuple[tuple[str, str], ...] = ()
    """What was run with what."""
    warnings: tuple[str, ...] = ()


def gather(ctx: StepContext, *, pass_at: float | None = None) -> Facts:
    """Read a run; one that has no results yet has no rows."""
    unmeasured, failures, notes = Listed(), Listed(), Listed()
    run: Run | None = None
    try:
        run = load_run(ctx.run_dir)
    except RunError:
        if ctx.incomplete is None:
            raise
    manifest = _manifest(run, ctx)

    def seen() -> Iterator[Record]:
        for record in run or ():
            if record.reward is None:
                code = str(record.failure_code or "")
                detail = f" ({record.failure_detail})" if record.failure_detail else ""
                unmeasured.add(record.trial_id, f"{code}{detail}", record.failure_message or "")
            for failure in record.step_failures:
                failures.add(record.trial_id, failure.step, failure.message)
            for step, what in record.step_notes:
                notes.add(record.trial_id, step, what)
            yield record

    numbers = RunNumbers() if run is None else RunNumbers.of_run(run, records=seen())
    for end in manifest.get("ended") or ():
        if not end.get("ok"):
            failures.add("", str(end.get("step", "")), str(end.get("message", "")))
    return Facts(
        run_id=ctx.run_id,
        experiment=ctx.experiment or str(manifest.get("experiment") or ""),
        created_at=str(manifest.get("created_at") or ""),
        incomplete=ctx.incomplete,
        numbers=numbers,
        pass_at=pass_at,
        unmeasured=unmeasured,
        step_failures=failures,
        step_notes=notes,
        gate=tuple(map(str, manifest.get("gate") or ())),
        rejected=tuple((str(k), str(v)) for k, v in (manifest.get("rejected") or {}).items()),
        cases=tuple(_cases(manifest)),
        setup=tuple(_setup(manifest)),
        warnings=tuple(f"mixed: {change}" for change in manifest.get("mixed") or ()),
    )


def _manifest(run: Run | None, ctx: StepContext) -> Mapping[str, Any]:
    if run is not None and run.manifest is not None:
        return run.manifest.model_dump(mode="json")
    return ctx.subject


def _cases(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for case in manifest.get("cases") or ():
        yield str(case.get("label", "")), str(case.get("sha256") or ""), pinned(case)


def _setup(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    executor = manifest.get("executor")
    if executor:
        yield "executor", f"{executor.get('label', '')} ({executor.get('kind', '')})"
    provider = manifest.get("provider")
    if provider:
        options = ", ".join(f"{key}={value}" for key, value in (provider.get("options") or {}).items())
        yield "provider", f"{provider.get('ref', '')}" + (f" ({options})" if options else "")
    for name, spec in (manifest.get("llm_specs") or {}).items():
        yield f"model {name}", " ".join(str(spec[key]) for key in ("model", "base_url") if spec.get(key))
    yield from origin(manifest)
    for name, version in (manifest.get("versions") or {}).items():
        yield str(name), str(version)
