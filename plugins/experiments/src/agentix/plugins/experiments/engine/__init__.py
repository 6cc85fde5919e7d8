"""One execution of an experiment, from the gate to the report."""

__all__: list[str] = []
