"""Templates in the inputs of steps: `{{.RunID}}` and the like, filled in for the unit that a step acts on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentix.api import Scope, StepContext, UsageError, slug
from agentix.plugins.experiments.commands.template import render, variables_of

VARIABLES: Mapping[str, frozenset[Scope]] = {
    "Experiment": frozenset(Scope),
    "RunID": frozenset(Scope),
    "LocalPath": frozenset(Scope),
    "Key": frozenset(Scope),
    "Case": frozenset({Scope.PER_CASE, Scope.PER_TRIAL}),
    "TrialID": frozenset({Scope.PER_TRIAL}),
}
"""What a template may name, and for which units it has a value."""


def variables(ctx: StepContext) -> dict[str, str]:
    """The values of the variables that there are for a unit.

    `LocalPath` is what there is to act on: what is to be shipped, else the case's directory, the trial's, or the run's.
    """
    found = {"Experiment": ctx.experiment, "RunID": ctx.run_id}
    path = ctx.run_dir
    if ctx.scope is not Scope.PER_EXPERIMENT and ctx.case is not None:
        found["Case"] = ctx.case.name
    if ctx.scope is Scope.PER_CASE and ctx.case is not None:
        path = ctx.case.directory or ctx.work_dir
    if ctx.scope is Scope.PER_TRIAL:
        found["TrialID"] = str(ctx.subject.get("trial_id", ""))
        path = ctx.trial_dir or ctx.work_dir
    return found | {"LocalPath": str(ctx.path or path), "Key": ctx.key}


def fill(value: Any, values: Mapping[str, str]) -> Any:
    """The same value with every template in it filled in; keys of mappings are left alone.

    Raises:
        UsageError: A template names a variable without a value.
    """
    if isinstance(value, str):
        return render(value, values, where="an input")
    if isinstance(value, Mapping):
        return {key: fill(item, values) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [fill(item, values) for item in value]
    return value


def fill_known(value: Any, values: Mapping[str, str]) -> Any:
    """The same value with templates filled in; a text that names a variable without a value stays as it is."""
    if isinstance(value, Mapping):
        return {key: fill_known(item, values) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [fill_known(item, values) for item in value]
    try:
        return fill(value, values)
    except UsageError:
        return value


def named(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every template somewhere in a value: where, and as it is written."""
    if isinstance(value, str):
        yield from ((path, template) for template in variables_of(value))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from named(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from named(item, f"{path}[{number}]")


def scopes_of(template: str) -> frozenset[Scope] | None:
    """For which units a template has a value; `None` where it names no variable."""
    inner = template.strip("{} \t")
    return VARIABLES.get(inner[1:]) if inner.startswith(".") else None


def example(scope: Scope, word: str = "example") -> dict[str, str]:
    """Values to check inputs with before there is a unit; others for another word."""
    return {name: f"{slug(name)}-{word}" for name, scopes in VARIABLES.items() if scope in scopes}
