"""Files that strangers have left on this machine: found and opened without being led astray."""

from agentix.files.opening import open_plain
from agentix.files.walking import Kind, WalkEntry, kind_of, listed, walk

__all__ = ["Kind", "WalkEntry", "kind_of", "listed", "open_plain", "walk"]
