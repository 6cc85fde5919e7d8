"""Takes secrets out of data as `json` takes it, where a name and its value are apart."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

_TELLING = re.compile(r"(?i)authorization|cookie|api[-_]?key|version|release|revision|build|firmware")
"""Names that say of their values what these are."""


class PlainData:
    """Masks every text in plain data.

    Args:
        masked: Masks a text, and counts what it takes out.
        counts: Where to count.
    """

    def __init__(self, masked: Callable[[str, Counter[str] | None], str], counts: Counter[str] | None) -> None:
        self._masked = masked
        self._counts = counts

    def clean(self, given: Any) -> Any:
        """The same without secrets; what holds none is equal to what was given."""
        if isinstance(given, str):
            return self._masked(given, self._counts)
        if isinstance(given, Mapping):
            return self._mapping(given)
        if isinstance(given, list | tuple) and not hasattr(given, "_fields"):
            if len(given) == 2 and self._tells(*given):
                pair = [self.clean(given[0]), self._told(*given)]
                return pair if isinstance(given, list) else tuple(pair)
            return type(given)(map(self.clean, given))
        if isinstance(given, int | float) and not isinstance(given, bool):
            digits = self._masked(repr(given), self._counts)
            return given if digits == repr(given) else digits
        return given

    def _mapping(self, given: Mapping[Any, Any]) -> dict[Any, Any]:
        cleaned: dict[Any, Any] = {}
        for key, value in given.items():
            new = self.clean(key)
            if new != key:
                number, base = 2, new
                while new in cleaned or new in given:
                    new, number = f"{base}-{number}", number + 1
            cleaned[new] = self._told(key, value) if self._tells(key, value) else self.clean(value)
        return cleaned

    def _tells(self, name: object, value: object) -> bool:
        return isinstance(name, str) and isinstance(value, str) and _TELLING.search(name) is not None

    def _told(self, name: str, value: str) -> str:
        """A value, masked as it is where its name stands before it."""
        both, alone = Counter[str](), Counter[str]()
        together = self._masked(json.dumps({name: value}, ensure_ascii=False), both)
        self._masked(name, alone)
        if self._counts is not None:
            self._counts.update(both - alone)
        ((_, masked),) = json.loads(together).items()
        return str(masked)
