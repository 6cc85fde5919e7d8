"""Finds many known byte strings at once, also where line breaks or escapes were put into them."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

Span = tuple[int, int, str]
"""Where something begins and ends, and what it is."""

LEAST = 7
"""Bytes; nothing shorter is looked for."""

_BREAKS = b"\r\n"
_BREAK = re.compile(rb"[\r\n]+")
_ESCAPE = re.compile(rb"\\+[rn]?|[\r\n]+")


class Needles:
    """Byte strings to look for, in time that does not depend on how many they are.

    A string of 15 bytes or more that stands anywhere in the data holds a whole block of 8 bytes of the data cut into
    such blocks. So the blocks are looked up in a set of all that may be, and only the strings that have one of those
    found are searched for; shorter strings are treated alike in blocks of 4.

    Args:
        forms: What to look for, each with its name.
    """

    def __init__(self, forms: Mapping[bytes, str]) -> None:
        self._joined = _Index({_joined(form): name for form, name in forms.items()})
        self._unescaped = _Index({_unescaped(form): name for form, name in forms.items()})
        self.longest = max(map(len, forms), default=0)

    def spans(self, data: bytes) -> list[Span]:
        """Where they stand; in no order, and some may overlap."""
        joined = _joined(data)
        found = self._joined.spans(data, joined, lambda found: _moved(found, _BREAK, data))
        if b"\\" in data:
            # The cheap view tells whether there is anything, the exact one where.
            near = _nearly_unescaped(data)
            forms = self._unescaped.candidates(near)
            # One that begins with n or r may be taken for the end of an escape, and does not count then.
            if any(form[:1] in (b"n", b"r") or near.count(form) > data.count(form) for form in forms):
                exact = _unescaped(data)
                found += _moved(self._unescaped.places(exact, self._unescaped.candidates(exact)), _ESCAPE, data)
        return [(_whole_escape(data, start), end, name) for start, end, name in found]


class _Index:
    def __init__(self, names: Mapping[bytes, str]) -> None:
        self._names = {form: name for form, name in names.items() if len(form) >= LEAST}
        self._blocks: dict[str, dict[int, set[bytes]]] = {}
        for form in self._names:
            code = "Q" if len(form) >= 15 else "I"
            blocks = self._blocks.setdefault(code, defaultdict(set))
            for start in range(array(code).itemsize):
                blocks[_cut(form[start:], code)[0]].add(form)
        self._sets = {code: frozenset(blocks) for code, blocks in self._blocks.items()}

    def candidates(self, data: bytes) -> set[bytes]:
        found: set[bytes] = set()
        for code, known in self._sets.items():
            for block in known.intersection(_cut(data, code)):
                found |= self._blocks[code][block]
        return found

    def spans(self, data: bytes, view: bytes, moved: Callable[[Iterable[Span]], Iterable[Span]]) -> list[Span]:
        """Where in the data they stand that stand in a view of it, of which something was left out."""
        forms = self.candidates(view)
        found = list(self.places(data, forms))
        if len(view) == len(data):
            return found
        # To tell places in the view from places in the data costs more than to see that there is no need.
        broken = [form for form in forms if view.count(form) > data.count(form)]
        return [*found, *moved(self.places(view, broken))] if broken else found

    def places(self, data: bytes, forms: Iterable[bytes]) -> Iterator[Span]:
        """Where some of them stand."""
        for form in forms:
            start = data.find(form)
            while start >= 0:
                yield start, start + len(form), self._names[form]
                start = data.find(form, start + len(form))


def _cut(data: bytes, code: str) -> array[int]:
    blocks = array(code)
    blocks.frombytes(data[: len(data) - len(data) % blocks.itemsize])
    return blocks


def _joined(data: bytes) -> bytes:
    return data.translate(None, _BREAKS)


def _unescaped(data: bytes) -> bytes:
    return _ESCAPE.sub(b"", data)


def _nearly_unescaped(data: bytes) -> bytes:
    return data.replace(b"\\n", b"\n").replace(b"\\r", b"\r").translate(None, b"\\\r\n")


def _moved(found: Iterable[Span], removed: re.Pattern[bytes], data: bytes) -> Iterator[Span]:
    """From places in data of which something was removed to places in the data itself."""
    places, sizes, total = [-1], [0], 0
    for match in removed.finditer(data):
        places.append(match.start() - total)
        total += match.end() - match.start()
        sizes.append(total)
    for start, end, name in found:
        yield (
            start + sizes[bisect_right(places, start) - 1],
            end + sizes[bisect_right(places, end - 1) - 1],
            name,
        )


def _whole_escape(data: bytes, start: int) -> int:
    """Where an escape begins of which the rest is to be taken out."""
    before = start
    while before and data[before - 1] == 0x5C:
        before -= 1
    return start - (start - before) % 2
