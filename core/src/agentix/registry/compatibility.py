"""Whether a plugin was built for this agentix, found out from its metadata alone.

Two things are looked at: the distribution's requirement on `agentix-rollouts-core`, and, where it declares
it, the version of the contracts that it is written for:

    [project.entry-points."agentix.plugin_api"]
    1 = "agentix.api"
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from agentix.registry.info import PluginInfo
from agentix.registry.kinds import CORE, PLUGIN_API

API_GROUP = "agentix.plugin_api"


@cache
def core_version() -> str | None:
    """The installed version of core; `None` where it runs from a source tree that is not installed."""
    try:
        return version(CORE)
    except PackageNotFoundError:
        return None


def incompatibility(info: PluginInfo) -> str | None:
    """Why the plugin cannot be used with this agentix, or `None`."""
    if info.plugin_api and str(PLUGIN_API) not in info.plugin_api:
        wanted = ", ".join(info.plugin_api)
        return f"it is written for plugin API {wanted}; this agentix has plugin API {PLUGIN_API}"
    have = core_version()
    for line in info.requires:
        if have is not None and line.replace(" ", "") != f"{CORE}=={have}" and not _admits(line, have):
            return f"it requires {line}; installed is {CORE} {have}"
    return None


def _admits(line: str, have: str) -> bool:
    if not line.lower().startswith("agentix"):
        return True
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    try:
        wanted = Requirement(line)
    except InvalidRequirement:
        return True
    if canonicalize_name(wanted.name) != CORE or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
        return True
    return wanted.specifier.contains(have, prereleases=True)
