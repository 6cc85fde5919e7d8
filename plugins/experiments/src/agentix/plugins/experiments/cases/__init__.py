"""Where cases come from, which bytes they are, and the snapshots that are run."""

__all__: list[str] = []
