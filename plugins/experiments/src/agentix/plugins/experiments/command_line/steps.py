"""`agentix steps`: what steps there are, from every plugin."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from agentix.plugins.experiments.steps.listing import InstalledStep

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="List the steps that experiment files can use.")


@app.command()
def steps(
    name: Annotated[str | None, typer.Argument(help="Show this step with its inputs.")] = None,
    scope: Annotated[
        str | None, typer.Option(help="Only steps of this list: per_case, per_trial or per_experiment.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the steps that are installed, or show one with its inputs.

    A command of the experiment file is a step too, under its own name.
    """
    import json as json_module

    from agentix.api import ConfigError, PluginNotFound, Scope
    from agentix.cli.api import Output, nearest
    from agentix.plugins.experiments.steps.listing import installed_steps

    if scope is not None and scope not in set(Scope):
        raise ConfigError(f"{scope!r} is no list of steps", where="--scope", hint=f"There are {', '.join(Scope)}.")
    found = [step for step in installed_steps() if scope is None or scope in step.scopes]
    output = Output.stdout()
    if name is not None:
        chosen = [step for step in found if step.name == name]
        if not chosen:
            meant = nearest(name, [step.name for step in found])
            hint = f"Did you mean {meant!r}?" if meant else f"There are {', '.join(step.name for step in found)}."
            raise PluginNotFound(f"no installed step is named {name!r}", hint=hint)
        found = chosen
    if json:
        output.write(json_module.dumps([step.to_data() for step in found], indent=2) + "\n")
    else:
        width = output.width
        told = _listing(found, width) if name is None else [line for step in found for line in _details(step, width)]
        for line in told:
            output.line(line)
    output.flush()


def _listing(found: list[InstalledStep], width: int | None) -> list[str]:
    from agentix.cli.api import option_rows, table

    rows = [[step.name, " ".join(step.scopes) or "-", step.plugin] for step in found]
    lines = table(["step", "lists", "from"], rows)
    told = lines[:1]
    for step, line in zip(found, lines[1:], strict=True):
        told += [line, *_paragraphs(step.broken or step.summary, width, indent="    ")]
        if inputs := [_marked(row[0], step) for row in option_rows(step.schema)]:
            head = "inputs (* required)" if step.schema.get("required") else "inputs"
            told += _paragraphs(f"{head}: {' '.join(inputs)}", width, indent="    ")
    return told


def _paragraphs(text: str, width: int | None, *, indent: str = "") -> list[str]:
    """A text whose paragraphs are folded anew; in a pipe each is one line."""
    wide = max(width or 1_000_000, 40)
    told = [
        textwrap.fill(" ".join(part.split()), wide, initial_indent=indent, subsequent_indent=indent)
        for part in text.split("\n\n")
    ]
    return "\n\n".join(told).split("\n")


def _marked(name: str, step: InstalledStep) -> str:
    return f"{name}*" if name in step.schema.get("required", ()) else name


def _details(step: InstalledStep, width: int | None) -> list[str]:
    from agentix.cli.api import option_rows, table

    if step.broken is not None:
        return [f"{step.name} ({step.plugin}) cannot be loaded: {step.broken}"]
    said = {
        "runs the trial": step.executes,
        "closes the run": step.reports,
        "redacts": step.redacts,
        "publishes": step.publishes,
    }
    marks = [text for text, true in said.items() if true]
    lines = [
        f"{step.name}: {', '.join((*step.scopes, *marks))} (from {step.plugin})",
        "",
        *_paragraphs(step.doc, width),
        "",
    ]
    rows = [list(row) for row in option_rows(step.schema)]
    if not rows:
        return [*lines, "It takes no inputs."]
    return [*lines, *table(["input", "type", "default", "meaning"], rows, width=width)]
