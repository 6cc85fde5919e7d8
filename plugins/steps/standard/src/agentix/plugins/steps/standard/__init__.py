"""The steps that every experiment can use."""

__all__: list[str] = []
