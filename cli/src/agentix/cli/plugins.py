"""`agentix plugins`: list what is installed, show one plugin, check one against its contract."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentix.cli.plugin_text import check_text, counts_text, details, listing, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentix.models import SandboxConfig
    from agentix.registry import AnyKind, Kind, PluginInfo

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="List, show and check plugins."
)

KindOption = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only this kind, such as provider.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_plugins(
    kind: KindOption = None,
    check: Annotated[bool, typer.Option("--check", help="Import each one and say whether that works.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the installed plugins.

    None is imported unless --check is given.
    """
    from agentix.registry import inspected, plugins, snapshot

    found = plugins(_kind(kind))
    if check:
        found = [inspected(info) for info in found]
    for problem in snapshot().problems:
        typer.echo(f"warning: {problem}", err=True)
    typer.echo(json.dumps([plain(info) for info in found], indent=2) if as_json else listing(found))


@app.command("show")
def show_plugin(
    name: Annotated[str, typer.Argument(help="NAME, KIND:NAME or DISTRIBUTION/NAME.")],
    kind: KindOption = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of its options.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Show what one plugin is, what it can do and which options it takes.

    Where a name is that of several kinds, all of them are shown; --schema and --json are for one.
    """
    from agentix.cli.output import Output
    from agentix.registry import inspected

    one = schema or as_json
    found = [inspected(info) for info in ([_find(name, kind)] if one else _find_all(name, kind))]
    if schema:
        empty = {"type": "object", "properties": {}, "additionalProperties": False}
        typer.echo(json.dumps(found[0].schema or empty, indent=2))
    elif as_json:
        typer.echo(json.dumps(plain(found[0], everything=True), indent=2))
    else:
        width = Output.stdout().width
        typer.echo("\n\n".join(details(info, width=width) for info in found))
    return 1 if any(info.state in ("broken", "incompatible") for info in found) else 0


@app.command("check")
def check_plugin(
    name: Annotated[str, typer.Argument(help="NAME, KIND:NAME, DISTRIBUTION/NAME or KIND:./FILE.py[:ATTR].")],
    kind: KindOption = None,
    opt: Annotated[list[str] | None, typer.Option("--opt", metavar="K=V", help="An option of the plugin.")] = None,
    waive: Annotated[
        list[str] | None, typer.Option("--waive", metavar="CHECK=REASON", help="Let a check fail, for a reason.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option("--only", metavar="CHECK", help="Run only this check.")] = None,
    provider: Annotated[
        str, typer.Option("--provider", help="Where a dataset or an agent is tried; none for no sandbox at all.")
    ] = "local",
    provider_opt: Annotated[
        list[str] | None, typer.Option("--provider-opt", metavar="K=V", help="An option of that provider.")
    ] = None,
    dataset: Annotated[str | None, typer.Option("--dataset", help="What an agent is tried on.")] = None,
    dataset_opt: Annotated[
        list[str] | None, typer.Option("--dataset-opt", metavar="K=V", help="An option of that dataset.")
    ] = None,
    inputs: Annotated[
        str | None, typer.Option("--inputs", metavar="JSON", help="Inputs with which a step or transport can run.")
    ] = None,
    writes: Annotated[
        list[str] | None,
        typer.Option("--writes", metavar="PATH", help="What those inputs make a step write in the run's directory."),
    ] = None,
    sandbox_opt: Annotated[
        list[str] | None,
        typer.Option(
            "--sandbox-opt",
            metavar="K=V",
            help="A field of the sandboxes that a provider is tried with, such as image=debian:12; it needs sh in it.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Run the contract checks against a plugin.

    The exit code is 1 where a promise is not kept.
    """
    import contextlib
    import sys
    from dataclasses import asdict
    from functools import partial

    import anyio

    from agentix.cli.output import Output
    from agentix.registry import load, parse_pairs
    from agentix.testing import run_checks

    chosen, reference = _reference(name, kind)
    waivers = {key: str(reason) for key, reason in parse_pairs(waive or (), where="--waive").items()}
    make = partial(load, chosen, reference, parse_pairs(opt or (), where="--opt"), where="--opt")
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        plugin = make()
        place = None
        if chosen in ("dataset", "agent") and provider != "none":
            place = load(
                "provider", provider, parse_pairs(provider_opt or (), where="--provider-opt"), where="--provider"
            )
        tasks = None
        if dataset is not None:
            given = parse_pairs(dataset_opt or (), where="--dataset-opt")
            tasks = load("dataset", dataset, given, where="--dataset")
        wanted = parse_pairs(sandbox_opt or (), where="--sandbox-opt")
        case = _case(chosen, make, place, tasks, inputs, writes or (), wanted)
        # A reader that has seen enough ends no check.
        shown = Output(out)
        tell = None if as_json else lambda result: shown.line(check_text(result))
        run = partial(run_checks, chosen, plugin, case=case, waivers=waivers, only=only, on_result=tell)
        results = anyio.run(run)
    typer.echo(json.dumps([asdict(result) for result in results], indent=2) if as_json else counts_text(results))
    return 0 if all(result.ok for result in results) else 1


def _case(
    kind: Kind,
    make: Any,
    provider: Any,
    dataset: Any,
    inputs: str | None,
    writes: Sequence[str],
    wanted: dict[str, Any],
) -> Any:
    from agentix.errors import ConfigError
    from agentix.testing import AgentCase, DatasetCase, ProviderCase, StepCase, TransportCase

    try:
        given = None if inputs is None else json.loads(inputs)
    except ValueError as exc:
        raise ConfigError(f"is not valid JSON: {exc}", where="--inputs") from None
    if given is not None and (not isinstance(given, dict) or kind not in ("step", "transport")):
        raise ConfigError("is a JSON object, for a step or a transport", where="--inputs")
    if writes and kind != "step":
        raise ConfigError(f"is for checking a step, not a {kind}", where="--writes")
    if dataset is not None and kind != "agent":
        raise ConfigError(f"is for checking an agent, not a {kind}", where="--dataset")
    if wanted and kind != "provider":
        raise ConfigError(
            f"describes what a provider is checked with, and this is a plugin of the kind {kind}", where="--sandbox-opt"
        )
    match kind:
        case "provider":
            return ProviderCase(config=_sandbox(wanted), another=make)
        case "dataset":
            return DatasetCase(provider=provider)
        case "agent":
            return AgentCase(provider=provider, dataset=dataset)
        case "step":
            return StepCase(inputs=given, writes=tuple(writes))
        case "transport":
            return TransportCase(inputs=given)


def _sandbox(wanted: dict[str, Any]) -> SandboxConfig:
    from pydantic import ValidationError

    from agentix.errors import ConfigError
    from agentix.models import SandboxConfig

    names = [*SandboxConfig.model_fields]
    for name in wanted:
        if name not in names:
            raise ConfigError(f"a sandbox has no {name!r}", where="--sandbox-opt", hint=f"fields: {', '.join(names)}")
    try:
        return SandboxConfig.model_validate(wanted)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{first['loc'][0]}: {first['msg']}", where="--sandbox-opt") from None


def _kind(text: str | None) -> AnyKind | None:
    from agentix.errors import ConfigError
    from agentix.registry import KINDS

    for known in KINDS:
        if text in (known, f"{known}s"):
            return known
    if text is not None:
        raise ConfigError(f"there is no kind {text!r}", where="--kind", hint=f"kinds: {', '.join(KINDS)}")
    return None


def _find(name: str, kind: str | None) -> PluginInfo:
    from agentix.errors import PluginAmbiguous

    found = _find_all(name, kind)
    if len(found) > 1:
        raise PluginAmbiguous(
            f"{found[0].name!r} is the name of several kinds",
            hint=f"say which: {', '.join(f'{info.kind}:{info.name}' for info in found)}",
        )
    return found[0]


def _find_all(name: str, kind: str | None) -> list[PluginInfo]:
    """One plugin of each kind that has this name, at least one."""
    from agentix.errors import PluginNotFound
    from agentix.registry import KINDS, find, nearest, plugins

    prefix, colon, rest = name.partition(":")
    chosen = _kind(prefix if colon and prefix in KINDS else kind)
    distribution, _, bare = (rest if colon and prefix in KINDS else name).rpartition("/")
    if bare.endswith(".py") or ":" in bare:
        raise PluginNotFound(
            f"{name} is no installed plugin, and only those can be shown",
            hint="`agentix plugins check` takes files and modules too",
        )
    kinds: list[AnyKind] = [k for k in KINDS if any(i.name == bare for i in plugins(k)) and chosen in (None, k)]
    if chosen is not None:
        kinds = [chosen]
    if not kinds:
        names = sorted({info.name for info in plugins()})
        meant = nearest(bare, names)
        hint = f"did you mean {meant!r}?" if meant else f"installed: {', '.join(names) or 'none'}"
        raise PluginNotFound(f"no plugin is named {bare!r}", hint=hint)
    return [find(found, bare, distribution=distribution or None, where=name) for found in kinds]


def _reference(name: str, kind: str | None) -> tuple[Kind, str]:
    from typing import cast

    from agentix.errors import ConfigError
    from agentix.registry import KINDS

    prefix, colon, rest = name.partition(":")
    chosen = _kind(prefix if colon and prefix in KINDS else kind)
    reference = rest if colon and prefix in KINDS else name
    if chosen is None and (":" in name or name.endswith(".py")):
        raise ConfigError(f"say of which kind {name!r} is", hint=f"agent:{name}, or --kind agent")
    if chosen is None:
        chosen = _find(name, kind).kind
    if chosen in ("cli", "hooks"):
        raise ConfigError(f"{name!r} is of the kind {chosen}, for which there are no checks")
    return cast("Kind", chosen), reference
