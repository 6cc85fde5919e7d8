"""Arguments as they are sent to a sandbox, which trusts its host."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from agentix.errors import UsageError
from agentix.runtime import context


class Pickled:
    """A pickle in pieces, of which the large ones are the very objects that were given.

    Args:
        value: What to pickle.
    """

    def __init__(self, value: Any) -> None:
        self.pieces: list[bytes] = []
        self.size = 0
        pickle.Pickler(self, protocol=5).dump(value)

    def write(self, piece: Any) -> None:
        """Take a piece from the pickler."""
        # A view is of something that may change, or end, before it is sent.
        kept = piece if type(piece) is bytes else bytes(piece)
        self.pieces.append(kept)
        self.size += len(kept)

    @property
    def joined(self) -> bytes:
        """All of it in one piece."""
        return b"".join(self.pieces)

    def names_main(self) -> bool:
        """Whether it could refer to something in `__main__`; a large piece is content and no name."""
        return any(b"__main__" in piece for piece in self.pieces if len(piece) < 1 << 17)


def pickled(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Pickled:
    """The arguments, and the context variables that are set here.

    Raises:
        UsageError: One of them cannot be pickled; the message names it.
    """
    values = context.values()
    try:
        return Pickled((args, kwargs, values))
    except Exception as error:
        named = [
            *((f"argument {place}", value) for place, value in enumerate(args, 1)),
            *((f"argument {name!r}", value) for name, value in kwargs.items()),
            *((f"the context variable {name!r}", value) for name, value in values.items()),
        ]
        for what, value in named:
            if not _pickles(value):
                kind = type(value).__qualname__
                raise UsageError(
                    f"{what} of {function.__qualname__}, of type {kind}, cannot be pickled: {error}",
                    hint="pass data, and open files, connections and the like inside the function",
                ) from error
        raise UsageError(f"the arguments of {function.__qualname__} cannot be pickled: {error}") from error


def _pickles(value: Any) -> bool:
    try:
        pickle.dumps(value, protocol=5)
    except Exception:
        return False
    return True
