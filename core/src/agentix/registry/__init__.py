"""Find plugins by entry point, and load the one that a user names.

A plugin is an entry point in the group of its kind (`agentix.datasets`, `.agents`, `.providers`, `.steps`,
`.transports`; also `.cli` and `.hooks`). Nothing here knows one plugin from another: what we publish is found
the same way as what anybody else does.
"""

from agentix.registry.catalogue import describe, inspected, label_of, plugins
from agentix.registry.importing import import_plugin
from agentix.registry.info import PluginInfo
from agentix.registry.kinds import KINDS, PLUGIN_API, AnyKind, Kind
from agentix.registry.loading import load
from agentix.registry.pairs import parse_pairs
from agentix.registry.resolving import find, nearest
from agentix.registry.schema import options_schema
from agentix.registry.snapshot import snapshot

__all__ = [
    "KINDS",
    "PLUGIN_API",
    "AnyKind",
    "Kind",
    "PluginInfo",
    "describe",
    "find",
    "import_plugin",
    "inspected",
    "label_of",
    "load",
    "nearest",
    "options_schema",
    "parse_pairs",
    "plugins",
    "snapshot",
]
