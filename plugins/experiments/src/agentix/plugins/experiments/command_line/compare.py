"""`agentix compare`: one run against another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentix.plugins.experiments.command_line.options import Out

if TYPE_CHECKING:
    from agentix.api import Comparison, Run, RunComparison

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Compare two runs, case by case.")


@app.command()
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="The run to compare against: an id in OUT, or a path.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The run to compare; may be the same as A, with --row-b.")],
    row_a: Annotated[str | None, typer.Option(metavar="AGENT", help="This agent of A, or 'AGENT with MODEL'.")] = None,
    row_b: Annotated[str | None, typer.Option(metavar="AGENT", help="This agent of B.")] = None,
    out: Out = Path("runs"),
    cases: Annotated[bool, typer.Option("--cases", help="List every case, also those that are the same.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare two runs: the difference with its interval, wins and losses, tests, and what changed in the setup.

    Agents of the same name with the same model are compared with each other; where each run has just one, these two
    are. Only cases that both have measured count.
    """
    import json as json_module

    from agentix.api import compare_runs
    from agentix.cli.api import Output

    first, second = _run(a, out), _run(b, out)
    found = compare_runs(first, second, row_a=row_a, row_b=row_b)
    output = Output.stdout()
    if json:
        data = {"a": str(first.path), "b": str(second.path), **found.to_data()}
        output.write(json_module.dumps(data, indent=2, allow_nan=False) + "\n")
    else:
        for line in _lines(found, everything=cases):
            output.line(line)
    output.flush()


def _run(text: str, out: Path) -> Run:
    from agentix.api import UsageError
    from agentix.cli.api import locate

    run, trial = locate(text, out=out)
    if trial is not None:
        raise UsageError(f"{text!r} is a trial; runs are compared", hint=f"Give {run.path}.")
    return run


def _lines(found: RunComparison, *, everything: bool) -> Iterator[str]:
    for pair in found.pairs:
        yield from _pair(pair, everything=everything)
        yield ""
    for name, rows in (("A", found.unpaired_a), ("B", found.unpaired_b)):
        if rows:
            yield f"only in {name}: {', '.join(rows)}"
    infra = found.unmeasured or {}
    if any(infra.values()):
        yield f"left out, failed for a reason that is not the agent's: {infra['a']} in A, {infra['b']} in B"
    yield "setup:" if found.changes else "setup: the same"
    yield from (f"  {change}" for change in found.changes)


def _pair(pair: Comparison, *, everything: bool) -> Iterator[str]:
    from agentix.cli.api import listed, number, plural, table

    yield f"A  {pair.a}"
    yield f"B  {pair.b}"
    if not pair.cases:
        yield "no case is measured in both"
    else:
        between = ""
        if pair.interval is not None:
            between = f"  [{_signed(pair.interval.low)}, {_signed(pair.interval.high)}] (95 %, over cases)"
        yield f"mean reward over {plural(len(pair.cases), 'case')}: A {number(pair.mean_a)}, B {number(pair.mean_b)}"
        yield f"difference B - A: {_signed(pair.difference)}{between}"
        yield f"B wins {pair.wins}, loses {pair.losses}, ties {pair.ties}"
        yield f"sign test p = {_p(pair.sign_p)}, permutation test p = {_p(pair.permutation_p)}" + (
            f" ({pair.permutation})" if pair.permutation else ""
        )
        shown = [case for case in pair.cases if everything or case.difference]
        if shown:
            shown.sort(key=lambda case: case.difference)
            rows = [[case.case, number(case.a), number(case.b), _signed(case.difference)] for case in shown]
            yield from ("", *table(["case", "A", "B", "B - A"], rows, right=frozenset({1, 2, 3})))
    for name, only in (("A", pair.only_a), ("B", pair.only_b)):
        if only:
            yield f"measured only in {name}: {listed(only)}"


def _signed(value: float | None) -> str:
    return "none" if value is None else f"{value:+.3f}"


def _p(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}" if value >= 0.0001 else "< 0.0001"
