"""Run the checks of a kind against a plugin, with or without pytest."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio

from agentix.errors import ConfigError
from agentix.registry import Kind
from agentix.registry.resolving import nearest
from agentix.testing.cases import AgentCase, Case, DatasetCase, ProviderCase, StepCase, TransportCase
from agentix.testing.checks import Check, CheckResult, NotApplicable, PromiseBroken

_CASES: Mapping[Kind, type[Case]] = {
    "provider": ProviderCase,
    "dataset": DatasetCase,
    "agent": AgentCase,
    "step": StepCase,
    "transport": TransportCase,
}


def checks_of(kind: Kind) -> tuple[Check, ...]:
    """The checks of a kind, in the order in which they run."""
    from agentix.testing.agent_checks import AGENT
    from agentix.testing.dataset_checks import DATASET
    from agentix.testing.provider_commands import COMMANDS
    from agentix.testing.provider_isolation import ISOLATION
    from agentix.testing.provider_lifetime import LIFETIME
    from agentix.testing.provider_refusals import REFUSALS
    from agentix.testing.publishing_checks import PUBLISHING
    from agentix.testing.step_checks import STEP
    from agentix.testing.transport_checks import TRANSPORT

    groups = (LIFETIME, REFUSALS, COMMANDS, ISOLATION, DATASET, AGENT, STEP, PUBLISHING, TRANSPORT)
    return tuple(check for group in groups if group.kind == kind for check in group.all)


async def run_checks(
    kind: Kind,
    plugin: object,
    *,
    case: Case | None = None,
    waivers: Mapping[str, str] | None = None,
    only: Sequence[str] | None = None,
    on_result: Callable[[CheckResult], None] | None = None,
) -> list[CheckResult]:
    """Run the contract checks against a plugin object.

    A plugin may bring waivers of its own, in the same form, as its attribute `contract_waivers`.

    Args:
        kind: Which contract.
        plugin: The object to check; entered, and left at the end, where it is an async context manager.
        case: How to try it; the default case of the kind otherwise.
        waivers: Reasons, by the name of the check that may fail for that reason.
        only: Names of the checks to run; all otherwise.
        on_result: Called with each result as soon as it is there.

    Returns:
        One result a check, in order.

    Raises:
        ConfigError: A waiver names no check or gives no reason, `only` names no check, or the case is of
            another kind.
    """
    checks = checks_of(kind)
    waivers = {**getattr(plugin, "contract_waivers", {}), **(waivers or {})}
    _validate(kind, checks, waivers, only)
    case = case or _CASES[kind]()
    if not isinstance(case, _CASES[kind]):
        raise ConfigError(f"a {kind} is checked with a {_CASES[kind].__name__}, not a {type(case).__name__}")
    results = []
    async with contextlib.AsyncExitStack() as stack:
        if isinstance(plugin, contextlib.AbstractAsyncContextManager):
            await stack.enter_async_context(plugin)
        for check in checks:
            if only is None or check.name in only:
                results.append(await _run(check, plugin, case, waivers.get(check.name)))
                if on_result is not None:
                    on_result(results[-1])
    return results


def _validate(kind: Kind, checks: Sequence[Check], waivers: Mapping[str, str], only: Sequence[str] | None) -> None:
    names = [check.name for check in checks]
    for name in (*waivers, *(only or ())):
        if name not in names:
            meant = nearest(name, names)
            hint = f"did you mean {meant!r}?" if meant else f"its checks: {', '.join(names)}"
            raise ConfigError(f"a {kind} has no check {name!r}", hint=hint)
    for name, reason in waivers.items():
        if not reason.strip():
            hint = "say why the plugin cannot keep the promise"
            raise ConfigError(f"the waiver of {name!r} gives no reason", hint=hint)


async def _run(check: Check, plugin: object, case: Any, waiver: str | None) -> CheckResult:
    irrelevance = check.irrelevance(plugin)
    if irrelevance is not None:
        return CheckResult(check.name, "skipped", check.promise, irrelevance)
    try:
        with anyio.fail_after(case.timeout_s):
            await check.function(plugin, case)
    except (Exception, SystemExit) as exc:
        reason = _single(exc)
        if isinstance(reason, NotApplicable):
            return CheckResult(check.name, "skipped", check.promise, str(reason))
        message = _told(reason, case.timeout_s)
        if waiver is not None:
            return CheckResult(check.name, "waived", check.promise, f"{waiver} ({message})")
        return CheckResult(check.name, "failed", check.promise, message)
    if waiver is not None:
        return CheckResult(check.name, "stale waiver", check.promise, f"it passes; the waiver said: {waiver}")
    return CheckResult(check.name, "passed", check.promise)


def _single(exc: BaseException) -> BaseException:
    while isinstance(exc, BaseExceptionGroup) and len(exc.exceptions) == 1:
        exc = exc.exceptions[0]
    return exc


def _told(exc: BaseException, timeout_s: float) -> str:
    if isinstance(exc, PromiseBroken):
        return str(exc)
    if isinstance(exc, TimeoutError) and not str(exc):
        return f"it did not end within {timeout_s:g} s"
    return "".join(traceback.format_exception(exc)).rstrip()
