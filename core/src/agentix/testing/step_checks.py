"""Checks of a step: its inputs are strict, and running it again does no harm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import BaseModel, ValidationError

from agentix.interfaces import Scope, Step, StepContext, StepOutcome
from agentix.testing.cases import StepCase
from agentix.testing.checks import Checks, expect, not_applicable

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


@contextmanager
def contexts(plugin: Any, subject: Mapping[str, Any]) -> Iterator[StepContext]:
    """A context in a scratch run directory."""
    with TemporaryDirectory(prefix="agentix-check-") as scratch:
        run, work = Path(scratch, "run"), Path(scratch, "work")
        run.mkdir()
        work.mkdir()
        scope = min(plugin.scopes, key=list(Scope).index)
        yield StepContext(scope=scope, run_id="agentix-check", run_dir=run, work_dir=work, subject=subject)


def fingerprint(directory: Path) -> dict[str, str]:
    """The contents of every file below a directory."""
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path.relative_to(directory)): sha256(path.read_bytes()).hexdigest() for path in files}


@STEP.add()
async def scopes_are_declared(step: Step, case: StepCase) -> None:
    """`scopes` is a frozenset of the scopes that it works in."""
    expect_scopes(step)


@STEP.add()
async def inputs_are_strict(step: Step, case: StepCase) -> None:
    """`Inputs` is a pydantic model that refuses an unknown input."""
    expect_strict_inputs(step)


@STEP.add()
async def running_twice_is_safe(step: Step, case: StepCase) -> None:
    """It returns a `StepOutcome`, writes nowhere but to its work directory, and can be run again."""
    if case.inputs is None:
        not_applicable("the case has no inputs to run it with")
    inputs = step.Inputs.model_validate(case.inputs)
    with contexts(step, case.subject) as ctx:
        if case.prepare is not None:
            case.prepare(ctx.run_dir)
        before = fingerprint(ctx.run_dir)
        outcomes = [await step.run(ctx, inputs) for _ in range(2)]
        after = fingerprint(ctx.run_dir)
    for outcome in outcomes:
        expect(isinstance(outcome, StepOutcome), f"run returned a {type(outcome).__name__}")
    expect(outcomes[0].ok == outcomes[1].ok, f"the first run ended {outcomes[0]}, the second {outcomes[1]}")
    expect(before == after, f"it changed the run directory: {sorted(set(before.items()) ^ set(after.items()))}")
