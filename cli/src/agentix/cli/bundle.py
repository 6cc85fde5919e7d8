"""`agentix bundle`: the bundles of the local store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentix.cli.options import Json, OnlySay, Verbose

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

Ref = Annotated[str, typer.Argument(help="NAME:TAG, or sha256:… or enough of it.", metavar="BUNDLE")]


@app.callback()
def bundle() -> None:
    """Look after the bundles that `agentix build` made."""


@app.command("list")
def list_(json: Json = False, verbose: Verbose = False) -> None:
    """List the bundles of the local store."""
    from agentix.bundle import list_bundles
    from agentix.cli.output import Output
    from agentix.cli.table import table

    output = Output.stdout()
    found = list_bundles()
    if json:
        from json import dumps

        output.line(dumps([_data(stored) for stored in found], indent=2))
        return
    if not found:
        output.line("no bundles yet; build one: agentix build PATH -n NAME:TAG")
        return
    rows: list[tuple[str, ...]] = []
    for stored in found:
        made = stored.description
        facts = ("damaged", "", "") if made is None else (made.platform, made.python, f"{made.size / 2**20:.1f} MiB")
        rows += [(name, stored.digest[:19], *facts) for name in stored.names or ("(no name)",)]
    for line in table(("NAME", "DIGEST", "PLATFORM", "PYTHON", "SIZE"), rows, right=frozenset({4})):
        output.line(line)


@app.command()
def show(
    ref: Ref,
    files: Annotated[bool, typer.Option("--files", help="List every file too.")] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show what a bundle holds, and whether it is sound and fits this machine."""
    from agentix.bundle import find_bundle
    from agentix.cli.output import Output

    found = find_bundle(ref)
    made, output = found.description, Output.stdout()
    if json:
        from json import dumps

        output.line(dumps(made.model_dump(mode="json", exclude=set() if files else {"entries"}), indent=2))
        return
    output.line(f"{made.name}:{made.tag}  {found.digest}")
    output.line(f"platform  {made.platform}, Python {made.python}{f', {made.libc}' if made.libc else ''}")
    output.line(f"size      {made.size / 2**20:.1f} MiB in {len(made.entries)} files")
    output.line(f"path      {found.path}")
    for title, facts in (("commands", made.tools), ("packages", made.packages)):
        output.line(f"{title}")
        for name, value in facts.items():
            output.line(f"  {name}  {value}")
    for entry in made.entries if files else ():
        output.line(f"{entry.kind:8}{entry.size:>12}  {entry.path}")


@app.command()
def export(
    ref: Ref,
    path: Annotated[Path, typer.Argument(help="A file; compressed where it ends in .tar.gz or .tgz.")],
    verbose: Verbose = False,
) -> None:
    """Write a bundle to a tar, for another machine."""
    from agentix.bundle import export_bundle
    from agentix.cli.output import Output

    made = export_bundle(ref, path)
    Output.stdout().line(f"{path}: {made.name}:{made.tag}, {path.stat().st_size / 2**20:.1f} MiB")


@app.command("import")
def import_(
    path: Annotated[Path, typer.Argument(help="A tar that export wrote, or a directory it was unpacked to.")],
    name: Annotated[
        str | None, typer.Option("--name", "-n", help="NAME or NAME:TAG instead of the bundle's own.")
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Take a bundle into the local store, checking every byte of it."""
    from agentix.bundle import import_bundle
    from agentix.cli.output import Output

    found = import_bundle(path, name=name)
    Output.stdout().line(f"{name or f'{found.description.name}:{found.description.tag}'}  {found.digest}")


@app.command()
def rm(
    refs: Annotated[list[str], typer.Argument(help="NAME:TAG, or sha256:… or enough of it.", metavar="BUNDLE...")],
    verbose: Verbose = False,
) -> None:
    """Remove names, and bundles that no other name points at."""
    from agentix.bundle import remove_bundle
    from agentix.cli.output import Output

    output = Output.stdout()
    for ref in refs:
        gone = remove_bundle(ref)
        for name in gone.removed:
            output.line(f"removed {name}")
        output.line(f"{gone.bytes / 2**20:.1f} MiB freed")


@app.command()
def gc(
    unused_for: Annotated[
        str, typer.Option(help="Remove what no build used in this time, such as 12h or 7d.", metavar="TIME")
    ] = "7d",
    dry_run: OnlySay = False,
    verbose: Verbose = False,
) -> None:
    """Remove bundles without a name, what is kept for builds, and what interrupted builds left."""
    from agentix.bundle import collect_bundles
    from agentix.cli.output import Output
    from agentix.cli.values import parse_duration

    output = Output.stdout()
    found = collect_bundles(unused_for_s=parse_duration(unused_for, where="--unused-for"), dry_run=dry_run)
    for name in found.removed:
        output.line(f"{'would remove' if dry_run else 'removed'} {name}")
    for name in found.kept:
        output.line(f"kept {name}")
    output.line(f"{found.bytes / 2**20:.1f} MiB {'would be freed' if dry_run else 'freed'}")


def _data(stored: object) -> dict[str, object]:
    from agentix.bundle import StoredBundle

    assert isinstance(stored, StoredBundle)
    made = stored.description
    known = {} if made is None else made.model_dump(mode="json", exclude={"entries", "name", "tag", "digest"})
    size = None if made is None else made.size
    return {"names": list(stored.names), "digest": stored.digest, "bytes": size, "problem": stored.problem, **known}
