"""Steps and executors: which one a name means, and how it is run."""

__all__: list[str] = []
