"""Where what a step publishes may go, and where it may come from."""

from __future__ import annotations

from published import write


def test_what_a_step_publishes_has_to_be_its_own_and_to_go_to_a_free_place(lab) -> None:
    (lab.root / "odd.py").write_text(
        """
import json
from pathlib import Path
from pydantic import BaseModel, ConfigDict
from agentix.api import Scope, StepOutcome

class Inputs(BaseModel):
    model_config = ConfigDict(extra="forbid")
    place: str
    source: str = "made"

class Odd:
    scopes = frozenset({Scope.PER_TRIAL, Scope.PER_EXPERIMENT})
    Inputs = Inputs
    publishes = True
    async def run(self, ctx, inputs):
        (ctx.work_dir / "made").write_text("made")
        (ctx.work_dir / "link").unlink(missing_ok=True)
        (ctx.work_dir / "link").symlink_to("/etc/passwd")
        return StepOutcome(publish={inputs.place: ctx.work_dir / inputs.source})

class Raw(Odd):
    publishes = False

step, raw = Odd, Raw
"""
    )
    cases = {
        "../x": "no plain relative path",
        "/x": "no plain relative path",
        "trials/a-someone-1": "trials is the run's own",
        "results.jsonl": "results.jsonl is the run's own",
        ".lock": ".lock is the run's own",
        "report.md": "there is such a file already",
    }
    steps = "".join(
        f"  - {{uses: '{lab.root}/odd.py:step', name: s{n}, with: {{place: '{place}'}}, on_failure: warn}}\n"
        for n, place in enumerate(cases)
    )
    for source in ("../../../results.jsonl", "link", "absent", "."):
        given = f"{{place: ok, source: '{source}'}}"
        steps += f"  - {{uses: '{lab.root}/odd.py:step', name: 'from {source}', with: {given}, on_failure: warn}}\n"
    steps += f"  - {{uses: '{lab.root}/odd.py:raw', name: raw, with: {{place: ok}}, on_failure: warn}}\n"
    steps += f"  - {{uses: '{lab.root}/odd.py:step', name: fine, with: {{place: figures/one.txt}}}}\n"
    file = write(lab, "  per_experiment:\n  - {uses: report}\n" + steps)
    assert lab.run(file) == 0
    ended = {end["step"]: end for end in lab.manifest()["ended"]}
    for number, said in enumerate(cases.values()):
        assert said in ended[f"s{number}"]["message"], ended[f"s{number}"]
    for source in ("../../../results.jsonl", "link", "absent", "."):
        assert not ended[f"from {source}"]["ok"], source
    assert "does not say that it publishes" in ended["raw"]["message"]
    assert ended["fine"]["published"] == ["figures/one.txt"]
    assert (lab.path() / ".staging/figures/one.txt").read_text() == "made"
    assert (lab.path() / "report.md").read_text().startswith("#")


def test_a_step_that_is_told_what_to_ship_does_not_wait_for_a_better_one(lab) -> None:
    (lab.root / "odd.py").write_text(
        """
from pydantic import BaseModel
from agentix.api import Scope

class Nothing(BaseModel):
    pass

class Odd:
    scopes = frozenset({Scope.PER_EXPERIMENT})
    Inputs = Nothing
    publishes = True
    async def run(self, ctx, inputs):
        raise RuntimeError("no rows")

step = Odd
"""
    )
    pipeline = f"""
  per_experiment:
  - {{uses: '{lab.root}/odd.py:step', name: rows, on_failure: warn}}
  - {{uses: ship, with: {{using: take, dest: x, path: manifest.json}}}}
  - {{uses: ship, name: rest, with: {{using: take, dest: y}}}}
"""
    assert lab.run(write(lab, pipeline)) == 1
    assert (lab.root / "sent/x/path").is_file()
    assert lab.manifest()["incomplete"].startswith(
        "rest: rows, whose result would be shipped, has failed: RuntimeError: no rows"
    )
