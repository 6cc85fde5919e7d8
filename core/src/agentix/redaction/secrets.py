"""Values that nothing written may hold, in whatever common form they come."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from agentix.redaction.forms import forms_of
from agentix.redaction.known import Needles, Span
from agentix.redaction.spans import taken_out

SHORTEST = 8
"""Characters; a shorter value is a part of too many texts that have nothing to do with it."""

T = TypeVar("T")


class Secrets:
    """The values that are known to be secret; neither its `repr` nor a pickle ever holds one.

    Each is looked for as it is, in JSON (also in JSON in JSON) and Python literals, in URLs, in hexadecimal, in base64
    wherever it begins there, and in UTF-16; all of these also where line breaks, plain or escaped, were put into them.

    Args:
        values: Those that are known from the beginning.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._forms: dict[str, dict[bytes, str]] = {}
        self._needles: Needles | None = None
        self.update(values)

    def __bool__(self) -> bool:
        return bool(self._forms)

    def __len__(self) -> int:
        return len(self._forms)

    def __eq__(self, other: object) -> bool:
        return self._forms.keys() == other._forms.keys() if isinstance(other, Secrets) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Secrets: {len(self)}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("secrets are not pickled: a pickle would hold them in the clear")

    def __copy__(self) -> Secrets:
        return Secrets() | self

    def __deepcopy__(self, memo: object) -> Secrets:
        return Secrets() | self

    def __or__(self, other: Secrets) -> Secrets:
        both = Secrets()
        both.update(self)
        both.update(other)
        return both

    def __ior__(self, other: Secrets) -> Secrets:
        self.update(other)
        return self

    @property
    def values(self) -> frozenset[str]:
        """The values themselves, to tell whether more are known than before; they are to be written nowhere."""
        return frozenset(self._forms)

    def add(self, value: str) -> bool:
        """One more; false where it is too short to be told from other text.

        White space around it counts for nothing, nor do line breaks in it.
        """
        value = value.strip()
        if len(value.replace("\n", "").replace("\r", "")) < SHORTEST or not value.strip("*"):
            return False
        if value not in self._forms:
            self._forms[value] = dict(reversed(list(forms_of(value))))
            self._needles = None
        return True

    def update(self, values: Iterable[str] | Secrets) -> None:
        """Several more; those that are too short are not looked for."""
        if isinstance(values, Secrets):
            if not values._forms.keys() <= self._forms.keys():
                self._forms |= values._forms
                self._needles = None
        else:
            for value in values:
                self.add(value)

    def forms(self) -> set[bytes]:
        """Every form that is looked for, unbroken."""
        return {form for forms in self._forms.values() for form in forms}

    @property
    def reach(self) -> int:
        """Bytes that the longest form may take with line breaks in it."""
        return 4 * self._found.longest + 4096

    def spans(self, data: bytes) -> list[Span]:
        """Where in the data a form of a value begins and ends, with the form's name; in no order."""
        return self._found.spans(data) if self._forms else []

    def data(self, data: bytes) -> bytes:
        """The bytes without the values."""
        spans = self.spans(data)
        return taken_out(data, spans)[0] if spans else data

    def text(self, text: str) -> str:
        """The text without the values."""
        if not self._forms:
            return text
        return self.data(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def within(self, given: T) -> T:
        """The same with every text in it masked: plain data, and dataclasses of it."""
        return given if not self._forms else self._within(given)

    def clean_files(self, directory: Path) -> tuple[str, ...]:
        """Take the values out of the files below a directory; links are not followed.

        Returns:
            Files that hold one and could not be cleaned, because they are no text or cannot be written.
        """
        from agentix.redaction.in_place import cleaned

        return tuple(cleaned(self, directory)) if self._forms else ()

    @property
    def _found(self) -> Needles:
        if self._needles is None:
            merged: dict[bytes, str] = {}
            for forms in self._forms.values():
                merged |= forms
            self._needles = Needles(merged)
        return self._needles

    def _within(self, given: Any) -> Any:
        if isinstance(given, Enum):
            # A word of ours, which says nothing of a secret that is the same word.
            return given
        if isinstance(given, str):
            masked = self.text(given)
            return given if masked == given else masked
        if isinstance(given, Mapping):
            return {self._within(key): self._within(value) for key, value in given.items()}
        if isinstance(given, list | tuple) and not hasattr(given, "_fields"):
            return type(given)(map(self._within, given))
        if dataclasses.is_dataclass(given) and not isinstance(given, type):
            fields = [(f.name, getattr(given, f.name)) for f in dataclasses.fields(given) if f.init]
            changed = {name: new for name, old in fields if (new := self._within(old)) != old}
            return dataclasses.replace(given, **changed) if changed else given
        return given
