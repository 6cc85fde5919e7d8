"""`agentix rollout`, also called `agentix-run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentix.cli import exit_codes
from agentix.cli.options import (
    AllowFailures,
    DatasetOpt,
    Instance,
    Out,
    ProviderOpt,
    SummaryJson,
    SummaryOnly,
    TrialsAtATime,
)
from agentix.cli.terms import WORDS
from agentix.cli.version import version_option

if TYPE_CHECKING:
    from agentix.models import Limits, Phase, TimeoutRule

EPILOG = f"{exit_codes.EPILOG}\n\n{WORDS}"

app = typer.Typer(add_completion=False, rich_markup_mode=None)

Factor = Annotated[float | None, typer.Option(help="Multiplies the task's own limit instead of --timeout-multiplier.")]


@app.command(epilog=EPILOG)
def rollout(
    ctx: typer.Context,
    dataset: Annotated[str, typer.Option(help="NAME, DIST/NAME, MODULE:ATTR or ./FILE.py[:ATTR].", metavar="REF")],
    agent: Annotated[str, typer.Option(help="The same forms.", metavar="REF", envvar="AGENTIX_AGENT")],
    provider: Annotated[
        str | None,
        typer.Option(
            help="The same forms; by default docker where that plugin is installed, else local.",
            metavar="REF",
            envvar="AGENTIX_PROVIDER",
        ),
    ] = None,
    dataset_opt: DatasetOpt = None,
    agent_opt: Annotated[list[str] | None, typer.Option(help="An option of the agent.", metavar="K=V")] = None,
    provider_opt: ProviderOpt = None,
    model: Annotated[str | None, typer.Option(help="The model, as the agent names it.", envvar="AGENTIX_MODEL")] = None,
    bundle: Annotated[
        str | None, typer.Option(help="Mounted in every sandbox: NAME:TAG, sha256:… or a path.", metavar="REF")
    ] = None,
    n_concurrent: TrialsAtATime = 8,
    prepare_ahead: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Sandboxes made ready before they are needed; 0 for none, by default a quarter of the trials at a "
            "time where creating takes long.",
            envvar="AGENTIX_PREPARE_AHEAD",
        ),
    ] = None,
    trials: Annotated[
        int,
        typer.Option("--trials", "--runs", min=1, help="Trials of every instance.", envvar="AGENTIX_TRIALS"),
    ] = 1,
    max_attempts: Annotated[
        int,
        typer.Option(
            min=1, help="How often a trial is tried that fails for the machine's sake.", envvar="AGENTIX_MAX_ATTEMPTS"
        ),
    ] = 1,
    instance: Instance = None,
    sample: Annotated[int | None, typer.Option(min=1, help="Only so many of them, drawn at random.")] = None,
    seed: Annotated[int, typer.Option(help="Of --sample: the same seed draws the same instances.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many of what is left.")] = None,
    out: Out = Path("runs"),
    run_id: Annotated[
        str | None, typer.Option("--id", help="Name of the run; the name of an earlier run resumes it.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Resume although the configuration changed; new records are marked mixed.")
    ] = False,
    retry: Annotated[
        list[str] | None,
        typer.Option(
            help="On resume, run trials again that failed with this code, or with any infrastructure failure (infra).",
            metavar="infra|CODE",
        ),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout",
            "--agent-timeout",
            help="Limit of the agent, such as 90s or 1h30m, instead of the task's own.",
            metavar="TIME",
            envvar="AGENTIX_TIMEOUT",
        ),
    ] = None,
    max_agent_timeout: Annotated[str | None, typer.Option(help="Caps the agent's limit.", metavar="TIME")] = None,
    agent_timeout_multiplier: Factor = None,
    verifier_timeout: Annotated[str | None, typer.Option(help="Limit of the scorer.", metavar="TIME")] = None,
    max_verifier_timeout: Annotated[str | None, typer.Option(help="Caps the scorer's limit.", metavar="TIME")] = None,
    verifier_timeout_multiplier: Factor = None,
    build_timeout: Annotated[
        str | None, typer.Option(help="Limit of building or fetching the image and starting.", metavar="TIME")
    ] = None,
    max_build_timeout: Annotated[str | None, typer.Option(help="Caps that limit.", metavar="TIME")] = None,
    build_timeout_multiplier: Factor = None,
    setup_timeout: Annotated[
        str | None, typer.Option(help="Limit of the dataset's set-up and the agent's.", metavar="TIME")
    ] = None,
    timeout_multiplier: Annotated[float, typer.Option(help="Multiplies all these limits.")] = 1.0,
    max_tool_calls: Annotated[int | None, typer.Option(min=1, help="Limit of one trial.")] = None,
    max_turns: Annotated[int | None, typer.Option(min=1, help="Limit of one trial.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Limit of one trial.")] = None,
    max_trial_cost_usd: Annotated[float | None, typer.Option(help="Limit of one trial.")] = None,
    max_cost_usd: Annotated[
        float | None,
        typer.Option(
            help="No trial is started once the known costs, and what the running ones may still cost, reach this.",
            envvar="AGENTIX_MAX_COST_USD",
        ),
    ] = None,
    stop_after: Annotated[
        int,
        typer.Option(
            min=0,
            help="Stop after so many infrastructure failures of one cause in a row; 0 never stops.",
            envvar="AGENTIX_STOP_AFTER",
        ),
    ] = 5,
    fail_under: Annotated[float | None, typer.Option(help="Exit 1 where the mean reward is below this.")] = None,
    allow_failures: AllowFailures = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and run nothing.")] = False,
    json: SummaryJson = False,
    quiet: SummaryOnly = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print every phase, and tracebacks of errors.")
    ] = False,
    version: Annotated[bool, version_option()] = False,
) -> None:
    """Run an agent over a dataset, each instance in its own sandbox, and score what it did.

    Results are kept in OUT/ID as each trial ends. A value that is not given comes from the environment variable
    that is named beside its option.
    """
    from agentix.cli.plan import default_provider
    from agentix.cli.request import PluginRequest, RolloutRequest
    from agentix.cli.run import run_rollout
    from agentix.cli.select import Selection
    from agentix.cli.values import finite, parse_pairs, positive
    from agentix.records import parse_retry

    source = ctx.get_parameter_source("trials")
    request = RolloutRequest(
        dataset=PluginRequest(ref=dataset, options=parse_pairs(dataset_opt or (), where="--dataset-opt")),
        agent=PluginRequest(ref=agent, options=parse_pairs(agent_opt or (), where="--agent-opt")),
        provider=PluginRequest(
            ref=provider or default_provider(), options=parse_pairs(provider_opt or (), where="--provider-opt")
        ),
        model=model,
        bundle=bundle,
        out=out,
        run_id=run_id,
        force=force,
        retry=parse_retry(retry or ()),
        n_concurrent=n_concurrent,
        prepare_ahead=prepare_ahead,
        trials=trials,
        trials_explicit=source is not None and source.name == "COMMANDLINE",
        max_attempts=max_attempts,
        limits=_limits(
            max_tool_calls=max_tool_calls,
            max_turns=max_turns,
            max_tokens=max_tokens,
            max_cost_usd=positive(max_trial_cost_usd, "--max-trial-cost-usd"),
        ),
        timeouts=_timeouts(
            timeout_multiplier,
            agent=("--timeout", timeout, "--max-agent-timeout", max_agent_timeout, agent_timeout_multiplier),
            score=(
                "--verifier-timeout",
                verifier_timeout,
                "--max-verifier-timeout",
                max_verifier_timeout,
                verifier_timeout_multiplier,
            ),
            create=(
                "--build-timeout",
                build_timeout,
                "--max-build-timeout",
                max_build_timeout,
                build_timeout_multiplier,
            ),
            setup=("--setup-timeout", setup_timeout, "", None, None),
        ),
        selection=Selection(patterns=tuple(instance or ()), sample=sample, seed=seed, limit=limit),
        max_cost_usd=positive(max_cost_usd, "--max-cost-usd"),
        stop_after=stop_after or None,
        fail_under=finite(fail_under, "--fail-under"),
        allow_failures=allow_failures,
        dry_run=dry_run,
        json=json,
        verbose=verbose,
        quiet=quiet,
    )
    raise typer.Exit(run_rollout(request))


def _limits(**given: float | None) -> Limits:
    from agentix.models import Limits

    return Limits.model_validate({name: value for name, value in given.items() if value is not None})


def _timeouts(
    multiplier: float, **phases: tuple[str, str | None, str, str | None, float | None]
) -> dict[Phase, TimeoutRule]:
    from agentix.cli.values import parse_duration, positive
    from agentix.models import TimeoutRule

    everywhere = positive(multiplier, "--timeout-multiplier")
    rules: dict[str, TimeoutRule] = {}
    for phase, (option, override, max_option, maximum, own) in phases.items():
        factor = everywhere if own is None else positive(own, f"{max_option.replace('max-', '')}-multiplier")
        rule = TimeoutRule(
            override=None if override is None else parse_duration(override, where=option),
            maximum=None if maximum is None else parse_duration(maximum, where=max_option),
            multiplier=1.0 if factor is None else factor,
        )
        if rule != TimeoutRule():
            rules[phase] = rule
    return rules  # type: ignore[return-value]
