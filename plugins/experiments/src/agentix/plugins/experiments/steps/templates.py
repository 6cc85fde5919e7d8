"""Templates in the inputs of steps: `{{.RunID}}` and the like, filled in for the unit that a step acts on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agentix.api import Scope, StepContext, slug

# One without its dot is a mistake that would otherwise end up in the name of a file.
_VARIABLE = re.compile(r"\{\{\s*(\.?[\w.]*)\s*\}\}")

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

    `LocalPath` is what there is to act on: the case's directory, the trial's, or the run's. `Key` is a name for it that
    no other unit has: `EXPERIMENT/RUN`, and then the case or the trial.
    """
    found = {"Experiment": ctx.experiment, "RunID": ctx.run_id}
    key = [slug(ctx.experiment) if ctx.experiment else "", ctx.run_id]
    path = ctx.run_dir
    if ctx.scope is not Scope.PER_EXPERIMENT and ctx.case is not None:
        found["Case"] = ctx.case.name
    if ctx.scope is Scope.PER_CASE and ctx.case is not None:
        key.append(slug(ctx.case.name))
        path = ctx.case.directory or ctx.work_dir
    if ctx.scope is Scope.PER_TRIAL:
        found["TrialID"] = str(ctx.subject.get("trial_id", ""))
        key.append(found["TrialID"])
        path = ctx.trial_dir or ctx.work_dir
    return found | {"LocalPath": str(path), "Key": "/".join(filter(None, key))}


def fill(value: Any, values: Mapping[str, str]) -> Any:
    """The same value with every template in it filled in; keys of mappings are left alone.

    Raises:
        KeyError: A template names a variable without a value.
    """
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: values[_named(match[1])], value)
    if isinstance(value, Mapping):
        return {key: fill(item, values) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [fill(item, values) for item in value]
    return value


def names(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every variable that is named somewhere in a value: where, and which."""
    if isinstance(value, str):
        yield from ((path, _named(match[1])) for match in _VARIABLE.finditer(value))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from names(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from names(item, f"{path}[{number}]")


def example(scope: Scope) -> dict[str, str]:
    """Values to check inputs with before there is a unit."""
    return {name: f"{slug(name)}-example" for name, scopes in VARIABLES.items() if scope in scopes}


def _named(text: str) -> str:
    return text[1:] if text.startswith(".") else f"{{{{{text}}}}}"
