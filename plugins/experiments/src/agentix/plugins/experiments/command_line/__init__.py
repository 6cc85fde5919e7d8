"""The commands that experiments add to agentix."""

__all__: list[str] = []
