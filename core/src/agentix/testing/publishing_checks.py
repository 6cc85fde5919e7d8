"""Checks of what a step publishes: that it is its own, the same again, and holds no secret."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from agentix.interfaces import Publishes, Redacts, Step, StepOutcome
from agentix.redaction import Secrets, scan
from agentix.testing.cases import StepCase
from agentix.testing.checks import Checks, expect, not_applicable
from agentix.testing.step_checks import inputs_of
from agentix.testing.step_units import CANARIES, RECORD, Unit, fingerprint, units

PUBLISHING = Checks("step")
TRIAL = f"trials/{RECORD.trial_id}"
RUNS_OWN = frozenset(
    {
        "cases",
        "experiment.yaml",
        "gate",
        "manifest.json",
        "progress.json",
        "results.jsonl",
        "run.log",
        "steps",
        "trials",
    }
)
"""Names in a run's directory under which no step publishes anything."""


@PUBLISHING.add()
async def what_it_publishes_is_fit(step: Step, case: StepCase) -> None:
    """All that it publishes are plain files of its own, for places that are free, and it is marked as one that may."""
    inputs = inputs_of(step, case)
    with units(step, case) as unit:
        outcome = await step.run(unit.ctx, inputs)
        redacts = isinstance(step, Redacts) and bool(step.redacts)
        if redacts:
            expect(
                set(outcome.publish) == {TRIAL},
                f"it redacts, and publishes {sorted(outcome.publish) or 'nothing'}, not {TRIAL}",
            )
        elif outcome.publish:
            marked = isinstance(step, Publishes) and bool(step.publishes)
            expect(marked, "it publishes what nobody has redacted; it needs publishes = True")
        for place, path in outcome.publish.items():
            for wrong in _faults(place, Path(path), unit, redacts=redacts):
                expect(False, wrong)
    if outcome.redaction:
        counts = [count for count in outcome.redaction.values() if not isinstance(count, int) or count < 0]
        expect(not counts, f"these are no counts: {counts}")


@PUBLISHING.add()
async def publishing_again_is_the_same(step: Step, case: StepCase) -> None:
    """Once what it published is taken away, running it again publishes the same for the same places."""
    inputs = inputs_of(step, case)
    with units(step, case) as unit:
        first = _taken(await step.run(unit.ctx, inputs))
        again = _taken(await step.run(unit.ctx, inputs))
    expect(first.keys() == again.keys(), f"first it published {sorted(first)}, then {sorted(again)}")
    changed = sorted(place for place in first if first[place] != again[place])
    expect(not changed, f"the second run published something else as {', '.join(changed)}")


@PUBLISHING.add()
async def known_secrets_are_taken_out(step: Step, case: StepCase) -> None:
    """A step that redacts publishes no known value, in no form and no name, and counts what it took out."""
    if not (isinstance(step, Redacts) and step.redacts):
        not_applicable("it does not redact")
    inputs = inputs_of(step, case)

    def seeded(trial_dir: Path) -> None:
        if case.prepare_trial is not None:
            case.prepare_trial(trial_dir)
        _seed(trial_dir)

    with units(step, replace(case, prepare_trial=seeded)) as unit:
        outcome = await step.run(unit.ctx, inputs)
        for path in outcome.publish.values():
            found = scan(Path(path), Secrets(CANARIES))
            expect(not found, f"it publishes a known value: {'; '.join(map(str, found))}")
    expect(outcome.ok, f"it published nothing of a trial with a known value: {outcome.message}")
    expect(sum(outcome.redaction.values()) > 0, "it took something out, and its outcome counts nothing")


def _seed(trial_dir: Path) -> None:
    secret, named = CANARIES
    place = trial_dir / "agentix-check"
    place.mkdir()
    (place / "plain.log").write_text(f"the key is {secret}, twice {secret}\n")
    (place / "record.json").write_text(json.dumps({"key": secret, "deep": [{secret: 1}]}))
    (place / "encoded.txt").write_bytes(
        base64.b64encode(f"user:{secret}".encode()) + b"\n" + secret.encode().hex().encode()
    )
    (place / f"{named}.txt").write_text("its name is the secret\n")


def _faults(place: str, path: Path, unit: Unit, *, redacts: bool) -> Iterator[str]:
    pure = PurePosixPath(place)
    if place != str(pure) or place == "." or pure.is_absolute() or ".." in pure.parts:
        yield f"{place!r} is no plain relative path"
    elif not redacts and (pure.parts[0] in RUNS_OWN or pure.parts[0].startswith(".")):
        yield f"the place {place!r} is the run's own"
    home = unit.ctx.work_dir
    if path.resolve() == home or not path.resolve().is_relative_to(home):
        yield f"what it publishes as {place} is not below its work directory"
    elif not path.exists():
        yield f"what it publishes as {place} is not there"
    else:
        for inner in (path, *path.rglob("*")):
            if inner.is_symlink() or not (inner.is_dir() or inner.is_file()):
                yield f"what it publishes as {place} holds {inner.name}, which is neither a file nor a directory"


def _taken(outcome: StepOutcome) -> dict[str, object]:
    """What is published, taken away as a run does that moves it."""
    found: dict[str, object] = {}
    for place, path in outcome.publish.items():
        if path.is_dir():
            found[place] = fingerprint(path)
            shutil.rmtree(path)
        else:
            found[place] = path.read_bytes()
            path.unlink()
    return found
