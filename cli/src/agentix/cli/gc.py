"""`agentix gc`: delete the sandboxes of processes that died."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentix.cli.options import Verbose

if TYPE_CHECKING:
    from agentix.cli.output import Output
    from agentix.models import SandboxInfo

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def gc(
    provider: Annotated[
        list[str] | None, typer.Option(help="Only of this provider; repeatable. All by default.", metavar="REF")
    ] = None,
    provider_opt: Annotated[
        list[str] | None, typer.Option(help="An option of the one provider.", metavar="K=V")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list them.")] = False,
    verbose: Verbose = False,
) -> None:
    """Delete sandboxes whose owner died without deleting them, and no others.

    Exit code 1 where one could not be deleted.
    """
    import anyio

    from agentix.cli.output import Output
    from agentix.cli.values import parse_pairs
    from agentix.errors import AgentixError, ConfigError
    from agentix.registry import load, plugins

    options = parse_pairs(provider_opt or (), where="--provider-opt")
    if options and (provider is None or len(provider) != 1):
        raise ConfigError("is for exactly one --provider", where="--provider-opt")
    output = Output.stdout()
    chosen: list[Any] = []
    for ref in provider or [info.exact for info in plugins("provider")]:
        try:
            chosen.append(load("provider", ref, options, where="--provider"))
        except AgentixError as error:
            if provider is not None:
                raise
            # What cannot be loaded now may own nothing; the others are not to suffer for it.
            output.line(f"{ref}: left out: {error.message}")
    failed = anyio.run(_collect, chosen, output, dry_run)
    if failed:
        raise typer.Exit(1)


async def _collect(providers: list[Any], output: Output, dry_run: bool) -> int:
    failed = 0
    for provider in providers:
        orphans = getattr(provider, "orphans", None)
        if orphans is None:
            output.line(f"{provider.name}: its sandboxes end with the process that made them")
            continue
        try:
            found: list[SandboxInfo] = await orphans()
            deleted = 0
            for info in found:
                try:
                    if not dry_run:
                        await provider.delete(info.id)
                    deleted += 1
                    output.line(f"{provider.name}: {'would delete' if dry_run else 'deleted'} {_described(info)}")
                except Exception as error:
                    failed += 1
                    output.line(f"{provider.name}: cannot delete {_described(info)}: {error}")
            output.line(f"{provider.name}: {deleted} of {len(found)} {'to delete' if dry_run else 'deleted'}")
        except Exception as error:
            failed += 1
            output.line(f"{provider.name}: cannot list its sandboxes: {error}")
        finally:
            if (aclose := getattr(provider, "aclose", None)) is not None:
                await aclose()
    return failed


def _described(info: SandboxInfo) -> str:
    labels = ", ".join(f"{key}={value}" for key, value in sorted(info.labels.items()))
    age = "" if info.created_at is None else f", {max(0.0, time.time() - info.created_at) / 60:.0f} min old"
    return f"{info.id} ({labels or 'no labels'}{age})"
