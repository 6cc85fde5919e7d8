"""The per-case steps: verdicts, their cache, and repairs."""

__all__: list[str] = []
