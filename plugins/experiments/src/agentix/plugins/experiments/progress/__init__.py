"""How far a run is: the live view, plain lines and progress.json."""

__all__: list[str] = []
