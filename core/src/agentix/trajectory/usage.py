"""Between ATIF's metrics and `Usage`.

ATIF counts every prompt token in `prompt_tokens`, those of the cache too. It has no place for tokens written to
a cache, so they stand in `extra` under `cache_write_tokens`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentix.models import Usage
from agentix.trajectory.models import FinalMetrics, Metrics, Step

CACHE_WRITE = "cache_write_tokens"
_CACHE_WRITE_NAMES = (CACHE_WRITE, "cache_creation_input_tokens", "total_cache_creation_input_tokens")


def usage_of(steps: Iterable[Step], final: FinalMetrics | None = None) -> Usage:
    """What a trajectory says was spent; totals, where it has them, win over sums."""
    total = Usage(turns=0, tool_calls=0)
    for step in steps:
        total = total + usage_of_step(step)
    return total if final is None else with_totals(total, final)


def usage_of_step(step: Step) -> Usage:
    """What one step was."""
    if step.source != "agent":
        return Usage()
    spent = Usage(turns=1, tool_calls=len(step.tool_calls or ()))
    return spent if step.metrics is None else spent + from_metrics(step.metrics)


def from_metrics(metrics: Metrics) -> Usage:
    """The metrics of a step in the normal form."""
    return _normal(
        metrics.prompt_tokens, metrics.completion_tokens, metrics.cached_tokens, metrics.extra, metrics.cost_usd
    )


def with_totals(summed: Usage, final: FinalMetrics) -> Usage:
    """The totals, with what they leave out taken from the sums."""
    whole = _normal(
        final.total_prompt_tokens,
        final.total_completion_tokens,
        final.total_cached_tokens,
        final.extra,
        final.total_cost_usd,
    )
    prompt = whole if final.total_prompt_tokens is not None else summed
    return Usage(
        input=prompt.input,
        cache_read=prompt.cache_read,
        cache_write=prompt.cache_write,
        output=summed.output if whole.output is None else whole.output,
        cost_usd=summed.cost_usd if whole.cost_usd is None else whole.cost_usd,
        turns=summed.turns,
        tool_calls=summed.tool_calls,
    )


def to_metrics(usage: Usage) -> dict[str, Any]:
    """The metrics of a step that spent this; unknown ones are left out."""
    prompt = [n for n in (usage.input, usage.cache_read, usage.cache_write) if n is not None]
    metrics: dict[str, Any] = {
        "prompt_tokens": sum(prompt) if prompt else None,
        "completion_tokens": usage.output,
        "cached_tokens": usage.cache_read,
        "cost_usd": usage.cost_usd,
        "extra": None if usage.cache_write is None else {CACHE_WRITE: usage.cache_write},
    }
    return {name: value for name, value in metrics.items() if value is not None}


def _normal(
    prompt: int | None, completion: int | None, cached: int | None, extra: dict[str, Any] | None, cost: float | None
) -> Usage:
    written = next((extra[name] for name in _CACHE_WRITE_NAMES if extra and _count(extra.get(name))), None)
    fresh = None
    if prompt is not None:
        # More cached tokens than prompt tokens: the writer did not count the cached ones among the prompt's.
        inside = (cached or 0) + (written or 0)
        fresh = prompt - inside if prompt >= inside else prompt
    return Usage(input=fresh, output=completion, cache_read=cached, cache_write=written, cost_usd=cost)


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
