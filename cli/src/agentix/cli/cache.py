"""`agentix cache`: where things are that can be built again."""

from __future__ import annotations

import typer

from agentix.cli.options import OnlySay, UnusedFor, Verbose

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def cache() -> None:
    """Look after the cache: AGENTIX_CACHE_DIR, else /var/cache/agentix as root, else the user's own."""


@app.command()
def prune(
    unused_for: UnusedFor = "7d",
    dry_run: OnlySay = False,
    verbose: Verbose = False,
) -> None:
    """Remove what is not needed any more: old runtimes, files kept for making patches, what interrupted work left."""
    from agentix.bundle import prune_cache
    from agentix.cli.output import Output
    from agentix.cli.values import parse_duration
    from agentix.patch import BlobStore

    unused_for_s = parse_duration(unused_for, where="--unused-for")
    pruned = prune_cache(unused_for_s=unused_for_s, dry_run=dry_run)
    blobs = BlobStore.default().prune(unused_for_s=unused_for_s, dry_run=dry_run)
    output = Output.stdout()
    for path in pruned.paths:
        output.line(str(path))
    said = "would be freed" if dry_run else "freed"
    if blobs.files:
        output.line(f"{blobs.files} files kept for making patches")
    size = pruned.bytes + blobs.bytes
    output.line(f"{len(pruned.paths) + blobs.files} removed, {size / 2**20:.1f} MiB {said}")


@app.command()
def path() -> None:
    """Print where the cache is."""
    from agentix.bundle import cache_dir
    from agentix.cli.output import Output

    Output.stdout().line(str(cache_dir()))
