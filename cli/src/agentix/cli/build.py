"""`agentix build`: a project becomes a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentix.cli.options import Verbose

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def build(
    path: Annotated[Path, typer.Argument(help="The directory with the pyproject.toml.")] = Path(),
    name: Annotated[
        str | None,
        typer.Option("--name", "-n", help="NAME or NAME:TAG; the project's name and version by default."),
    ] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Ask the package index again for what no lock file fixes.")
    ] = False,
    push: Annotated[
        str | None,
        typer.Option(
            help="Also publish it as an image: REGISTRY/NAME[:TAG], with the login that docker has stored.",
            metavar="IMAGE",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the digest.")] = False,
    verbose: Verbose = False,
) -> None:
    """Build a project, its dependencies as locked and its tools into a bundle in the local store.

    Dependencies come from uv.lock, pylock.toml or a requirements.txt in which all is pinned, else from the
    project's metadata. They are kept, so that building again after an edit takes about a second.
    """
    import time

    from agentix.bundle import build_bundle, push_bundle
    from agentix.bundle.registry import parse_image_ref
    from agentix.cli.output import Output
    from agentix.cli.wording import plural

    if push is not None:
        # What is wrong with it is better known before the build.
        parse_image_ref(push)
    output, steps = Output.stdout(), Output.stderr()
    began = time.monotonic()
    bundle = build_bundle(path, name=name, refresh=refresh, on_step=None if quiet else steps.line)
    pushed = None if push is None else push_bundle(bundle.digest, push)
    if quiet:
        output.line(bundle.digest)
        return
    made = bundle.description
    output.line(f"{made.name}:{made.tag}  {bundle.digest}")
    output.line(
        f"{plural(len(made.packages), 'package')}, {plural(len(made.tools), 'command')}, {made.size / 2**20:.1f} MiB, "
        f"{made.platform}, Python {made.python}, {time.monotonic() - began:.1f} s"
    )
    if pushed is not None:
        output.line(f"{pushed.reference}@{pushed.digest}  {pushed.uploaded / 2**20:.1f} MiB uploaded")
