"""Experiments: a file, a fixed plan, a run that can be trusted and resumed."""

__all__: list[str] = []
