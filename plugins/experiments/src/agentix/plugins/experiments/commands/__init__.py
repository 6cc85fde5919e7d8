"""Running configured commands: variables in, files and an exit status out."""

__all__: list[str] = []
