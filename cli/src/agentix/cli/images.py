"""`agentix images`: the images of tasks, had ahead of a run, listed, and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentix.cli.options import DatasetOpt, Instance, Json, OnlySay, ProviderOpt, UnusedFor, Verbose

if TYPE_CHECKING:
    from agentix.interfaces import SandboxProvider

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

Dataset = Annotated[str, typer.Option(help="NAME, DIST/NAME, MODULE:ATTR or ./FILE.py[:ATTR].", metavar="REF")]
Provider = Annotated[
    str | None, typer.Option(help="The same forms; as for a run by default.", metavar="REF", envvar="AGENTIX_PROVIDER")
]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first so many of them.")]
Width = Annotated[
    int, typer.Option(min=1, help="Images at a time; a provider may go slower.", envvar="AGENTIX_N_CONCURRENT")
]


@app.callback()
def images() -> None:
    """Look after the images of tasks."""


@app.command()
def pull(
    dataset: Dataset,
    dataset_opt: DatasetOpt = None,
    provider: Provider = None,
    provider_opt: ProviderOpt = None,
    instance: Instance = None,
    limit: Limit = None,
    n_concurrent: Width = 8,
    verbose: Verbose = False,
) -> None:
    """Get the images of a dataset's instances, so that no run waits for them: pull what they name, build the rest.

    Exit code 1 where one could not be had.
    """
    _have(dataset, dataset_opt, provider, provider_opt, instance, limit, n_concurrent, built_only=False)


@app.command()
def build(
    dataset: Dataset,
    dataset_opt: DatasetOpt = None,
    provider: Provider = None,
    provider_opt: ProviderOpt = None,
    instance: Instance = None,
    limit: Limit = None,
    n_concurrent: Width = 8,
    verbose: Verbose = False,
) -> None:
    """Build the images of the instances that have a Dockerfile, and leave alone those that name an image.

    Exit code 1 where one could not be built.
    """
    _have(dataset, dataset_opt, provider, provider_opt, instance, limit, n_concurrent, built_only=True)


@app.command("list")
def list_(
    provider: Provider = None,
    provider_opt: ProviderOpt = None,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """List the images that were built for tasks and are still there."""
    import time
    from dataclasses import asdict

    import anyio

    from agentix.cli.output import Output
    from agentix.cli.table import table
    from agentix.interfaces import KeepsImages

    output = Output.stdout()
    chosen = _that(KeepsImages, provider, provider_opt)
    found = anyio.run(_closing, chosen, lambda: chosen.images())
    if json:
        from json import dumps

        output.line(dumps([asdict(image) for image in found], indent=2))
        return
    if not found:
        output.line("no images were built for tasks")
        return
    rows = [
        (
            image.name,
            image.id.removeprefix("sha256:")[:12],
            f"{image.size / 2**20:.1f} MiB",
            f"{max(0.0, time.time() - image.used_at) / 3600:.1f} h ago",
            image.origin,
        )
        for image in found
    ]
    for line in table(("NAME", "ID", "SIZE", "USED", "FROM"), rows, right=frozenset({2, 3})):
        output.line(line)


@app.command()
def prune(
    provider: Provider = None,
    provider_opt: ProviderOpt = None,
    unused_for: UnusedFor = "7d",
    dry_run: OnlySay = False,
    verbose: Verbose = False,
) -> None:
    """Remove images that were built for tasks, and what else the provider keeps with them; never those in use."""
    import anyio

    from agentix.cli.output import Output
    from agentix.cli.values import parse_duration
    from agentix.interfaces import KeepsImages

    seconds = parse_duration(unused_for, where="--unused-for")
    output = Output.stdout()
    chosen = _that(KeepsImages, provider, provider_opt)
    pruned = anyio.run(_closing, chosen, lambda: chosen.prune_images(unused_for_s=seconds, dry_run=dry_run))
    for name in pruned.removed:
        output.line(f"{'would remove' if dry_run else 'removed'} {name}")
    for name in pruned.kept:
        output.line(f"in use: {name}")
    would = "would be " if dry_run else ""
    output.line(f"{len(pruned.removed)} {would}removed, at most {pruned.size / 2**20:.1f} MiB {would}freed")


def _that(interface: Any, ref: str | None, options: list[str] | None) -> Any:
    """The provider, which has to be one that keeps images.

    Raises:
        ConfigError: It is none.
    """
    from agentix.errors import ConfigError

    chosen = _provider(ref, options)
    if not isinstance(chosen, interface):
        raise ConfigError(f"{chosen.name} keeps no images", where="--provider", hint="Use a provider with an engine.")
    return chosen


def _provider(ref: str | None, options: list[str] | None) -> SandboxProvider:
    from agentix.cli.plan import default_provider
    from agentix.cli.values import parse_pairs
    from agentix.registry import load

    given = parse_pairs(options or (), where="--provider-opt")
    return load("provider", ref or default_provider(), given, where="--provider")


async def _closing(provider: Any, work: Any) -> Any:
    try:
        return await work()
    finally:
        if (aclose := getattr(provider, "aclose", None)) is not None:
            await aclose()


def _have(
    dataset_ref: str,
    dataset_opt: list[str] | None,
    provider_ref: str | None,
    provider_opt: list[str] | None,
    instance: list[str] | None,
    limit: int | None,
    n_concurrent: int,
    *,
    built_only: bool,
) -> None:
    import anyio

    from agentix.cli.output import Output
    from agentix.cli.prefetch import distinct, have
    from agentix.cli.select import Selection
    from agentix.cli.values import parse_pairs
    from agentix.interfaces import Prefetches
    from agentix.registry import load

    options = parse_pairs(dataset_opt or (), where="--dataset-opt")
    dataset = load("dataset", dataset_ref, options, where="--dataset")
    provider = _that(Prefetches, provider_ref, provider_opt)
    chosen = Selection(patterns=tuple(instance or ()), limit=limit).apply(dataset.instances())
    wanted, unknown = distinct(dataset, chosen, built_only=built_only)
    output = Output.stdout()
    for line in unknown:
        output.line(f"FAILED  {line}")
    if not wanted:
        if unknown:
            raise typer.Exit(1)
        output.line("none of the instances has an image to be built" if built_only else "no instance has an image")
        return
    failed = anyio.run(_closing, provider, lambda: have(provider, wanted, n_concurrent=n_concurrent, output=output))
    output.line(f"{len(wanted) - failed} of {len(wanted)} images are there")
    if failed or unknown:
        raise typer.Exit(1)
