"""Options as a command line gives them: `KEY=VALUE`, each as often as wanted."""

from __future__ import annotations

from collections.abc import Iterable

from agentix.errors import ConfigError


def parse_pairs(pairs: Iterable[str], *, where: str) -> dict[str, object]:
    """Options from `KEY=VALUE` strings; one that is repeated gives a list.

    Args:
        pairs: What the user typed after each `where`.
        where: The option, such as `--agent-opt`.

    Raises:
        ConfigError: One has no `=` or no key.
    """
    values: dict[str, list[str]] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{pair!r} is not KEY=VALUE", where=where)
        values.setdefault(key.strip(), []).append(value)
    return {key: given[0] if len(given) == 1 else given for key, given in values.items()}
