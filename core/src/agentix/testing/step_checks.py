"""Checks of a step: its inputs, its scopes, where it writes, running it again, and stopping it."""

from __future__ import annotations

import inspect
import json
import os
from typing import Any

import anyio
from pydantic import BaseModel, ValidationError

from agentix.interfaces import Executes, Publishes, Redacts, Reports, Scope, Step, StepOutcome
from agentix.models import Rollout
from agentix.testing.cases import StepCase
from agentix.testing.checks import Checks, expect, not_applicable
from agentix.testing.step_units import Unit, fingerprint, units

STEP = Checks("step")


def expect_scopes(plugin: Any) -> None:
    """Check that `scopes` is a set of `Scope` that is not empty."""
    scopes = plugin.scopes
    expect(isinstance(scopes, frozenset) and scopes, f"scopes is {scopes!r}, not a frozenset with something in it")
    unknown = [scope for scope in scopes if not isinstance(scope, Scope)]
    expect(not unknown, f"these are no scopes: {unknown}")


def expect_strict_inputs(plugin: Any) -> None:
    """Check that `Inputs` is a pydantic model that refuses what it does not know."""
    model = plugin.Inputs
    expect(isinstance(model, type) and issubclass(model, BaseModel), f"Inputs is {model!r}, not a pydantic model")
    try:
        model.model_validate({"agentix_check_unknown": 1})
    except ValidationError as exc:
        unknown = [e for e in exc.errors() if e["loc"] == ("agentix_check_unknown",)]
        expect(unknown, 'an unknown input is ignored; Inputs needs model_config = ConfigDict(extra="forbid")')
    else:
        expect(False, 'an unknown input is accepted; Inputs needs model_config = ConfigDict(extra="forbid")')


def expect_schema(plugin: Any) -> None:
    """Check that the inputs can be described to whoever writes a file."""
    schema = plugin.Inputs.model_json_schema()
    try:
        json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError) as exc:
        expect(False, f"the schema of its inputs is not JSON: {exc}")
    expect(schema.get("type") == "object", f"the schema of its inputs is of a {schema.get('type')}, not of an object")
    for name, model in schema.get("$defs", {}).items():
        if model.get("type") == "object" and "properties" in model:
            strict = model.get("additionalProperties") is False
            expect(strict, f'an unknown key of {name} is accepted; it needs model_config = ConfigDict(extra="forbid")')


def inputs_of(step: Step, case: StepCase) -> Any:
    """The inputs to run a step with, where it can be run."""
    if case.inputs is None:
        not_applicable("the case has no inputs to run it with")
    if isinstance(step, Executes) and step.executes and case.work is None:
        not_applicable("it runs trials, and the case has none to run")
    return step.Inputs.model_validate(case.inputs)


def _expect_outcome(step: Step, outcome: Any, case: StepCase) -> None:
    expect(isinstance(outcome, StepOutcome), f"run returned a {type(outcome).__name__}, not a StepOutcome")
    if isinstance(step, Executes) and step.executes:
        expect(isinstance(outcome.rollout, Rollout), "it runs trials, and its outcome has no rollout")
    if not outcome.ok:
        expect(outcome.message, "it rejected the unit and did not say why")
    if case.ok is not None:
        expect(outcome.ok == case.ok, f"its verdict has to be ok={case.ok}, and is {outcome}")


def _expect_untouched(unit: Unit, before: dict[str, str]) -> None:
    changed = sorted({name for name, _ in set(before.items()) ^ set(unit.fingerprint().items())})
    expect(not changed, f"it changed what it may only read: {', '.join(changed)}")


@STEP.add()
async def scopes_are_declared(step: Step, case: StepCase) -> None:
    """`scopes` is a frozenset of the scopes that it works in."""
    expect_scopes(step)


@STEP.add()
async def marks_fit_the_scopes(step: Step, case: StepCase) -> None:
    """What `executes` or `redacts` works per trial, what `reports` per experiment, and nothing `publishes` per case."""
    if isinstance(step, Executes):
        expect(isinstance(step.executes, bool), f"executes is {step.executes!r}")
        expect(not step.executes or Scope.PER_TRIAL in step.scopes, "only a per-trial step can run trials")
    if isinstance(step, Reports):
        expect(isinstance(step.reports, bool), f"reports is {step.reports!r}")
        expect(not step.reports or Scope.PER_EXPERIMENT in step.scopes, "only a per-experiment step can report")
    if isinstance(step, Redacts):
        expect(isinstance(step.redacts, bool), f"redacts is {step.redacts!r}")
        expect(not step.redacts or step.scopes == {Scope.PER_TRIAL}, "only a per-trial step can redact")
    if isinstance(step, Publishes):
        expect(isinstance(step.publishes, bool), f"publishes is {step.publishes!r}")
        expect(not step.publishes or Scope.PER_CASE not in step.scopes, "of a case nothing is published")
    both = getattr(step, "redacts", False) and getattr(step, "publishes", False)
    expect(not both, "what a step redacts it cannot see redacted already: it has both marks")


@STEP.add()
async def it_says_what_it_does(step: Step, case: StepCase) -> None:
    """Its class has a docstring, which `agentix steps` shows."""
    expect(inspect.getdoc(type(step)), f"{type(step).__qualname__} has no docstring")


@STEP.add()
async def inputs_are_strict(step: Step, case: StepCase) -> None:
    """`Inputs` is a pydantic model that refuses an unknown input."""
    expect_strict_inputs(step)


@STEP.add()
async def inputs_have_a_schema(step: Step, case: StepCase) -> None:
    """The schema of `Inputs` is JSON, of an object, and refuses unknown keys at every level."""
    expect_schema(step)


@STEP.add()
async def running_twice_is_safe(step: Step, case: StepCase) -> None:
    """It returns a `StepOutcome`, and running it again comes to the same verdict and the same files."""
    inputs = inputs_of(step, case)
    with units(step, case) as unit:
        outcomes, left = [], []
        for _ in range(2):
            outcomes.append(await step.run(unit.ctx, inputs))
            left.append({str(p): fingerprint(p) if p.is_dir() else p.read_bytes() for p in unit.writes if p.exists()})
    for outcome in outcomes:
        _expect_outcome(step, outcome, case)
    expect(outcomes[0].ok == outcomes[1].ok, f"the first run ended {outcomes[0]}, the second {outcomes[1]}")
    expect(left[0] == left[1], f"the second run left something else in {', '.join(case.writes)}")


@STEP.add()
async def it_writes_only_to_its_place(step: Step, case: StepCase) -> None:
    """It writes nowhere but to its work directory and to what its inputs name, and leaves this process as it is."""
    inputs = inputs_of(step, case)
    environment, here = dict(os.environ), os.getcwd()  # noqa: PTH109
    with units(step, case) as unit:
        before = unit.fingerprint()
        await step.run(unit.ctx, inputs)
        _expect_untouched(unit, before)
        for written in unit.writes:
            expect(written.exists(), f"it did not write {written.name}, which its inputs tell it to")
    changed = sorted({name for name, _ in set(environment.items()) ^ set(os.environ.items())})
    expect(not changed, f"it changed this process's environment: {', '.join(changed)}")
    expect(os.getcwd() == here, "it changed this process's working directory")  # noqa: PTH109


@STEP.add()
async def cancellation_goes_through(step: Step, case: StepCase) -> None:
    """Cancelled, it ends and does not go on as if nothing had happened; afterwards it runs as if it never had."""
    inputs = inputs_of(step, case)
    with units(step, case) as clean:
        wanted = await step.run(clean.ctx, inputs)
    with anyio.CancelScope() as scope, units(step, case, probed=scope.cancel) as unit:
        outcome = await step.run(unit.ctx, inputs)
        # One that never waits for anything has nothing to be cancelled at.
        expect(not scope.cancel_called, f"it was cancelled while it waited for a probe, and went on to {outcome}")
    with units(step, case) as unit:
        before = unit.fingerprint()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await step.run(unit.ctx, inputs)
        again = await step.run(unit.ctx, inputs)
        _expect_untouched(unit, before)
    expect(again.ok == wanted.ok, f"after it was cancelled once it ended {again}, else {wanted}")
