"""The experiment file: what it may say, read strictly, with all that is wrong told at once."""

__all__: list[str] = []
