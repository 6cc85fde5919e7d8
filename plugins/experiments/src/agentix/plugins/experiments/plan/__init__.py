"""The fixed list of trials: a pure function of the resolved cases and the matrix."""

__all__: list[str] = []
