"""What a command sees of this machine's environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

ALWAYS = ("HOME", "PATH", "LANG", "TERM")
"""What every command sees of this machine."""

_SET: Mapping[str, str] = {"GIT_TERMINAL_PROMPT": "0"}
"""Nobody is there to answer."""


def environment(
    host: Mapping[str, str],
    *,
    inherit: bool,
    declared: Iterable[str],
    hidden: Iterable[str],
    variables: Mapping[str, str],
) -> dict[str, str]:
    """The whole environment of a command.

    Args:
        host: This machine's variables.
        inherit: Whether it sees all of them; else just `HOME`, `PATH`, `LANG`, `TERM` and the declared ones.
        declared: Names that it may see.
        hidden: Names that it never sees.
        variables: The step's own, which win.
    """
    wanted = set(host) if inherit else {*ALWAYS, *declared}
    seen = {name: host[name] for name in sorted(wanted - set(hidden)) if name in host}
    return {**seen, **_SET, **variables}
