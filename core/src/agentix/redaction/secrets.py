"""Values that nothing written may hold, in whatever common form they come."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus
from uuid import uuid4

SHORTEST = 8
"""Characters; a shorter value is a part of too many texts that have nothing to do with it."""
MASK = "***"
_CHUNK = 1 << 20

T = TypeVar("T")


class Secrets:
    """The keys that a run has used so far.

    Args:
        values: Those that are known from the beginning.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: set[str] = set()
        self._found: re.Pattern[bytes] | None = None
        self._longest = 0
        for value in values:
            self.add(value)

    def __bool__(self) -> bool:
        return bool(self._values)

    @property
    def values(self) -> frozenset[str]:
        """The values themselves, to tell whether more are known than before; they are to be written nowhere."""
        return frozenset(self._values)

    def add(self, value: str) -> bool:
        """One more; false where it is too short to be told from other text."""
        if len(value) < SHORTEST:
            return False
        if value not in self._values:
            self._values.add(value)
            forms = sorted(self.forms(), key=len, reverse=True)
            self._longest = len(forms[0])
            self._found = re.compile(b"|".join(map(re.escape, forms)))
        return True

    def forms(self) -> set[bytes]:
        """Every form that is looked for: plain, in JSON, in a URL, in hexadecimal and in base64, wherever it begins."""
        return {form for value in self._values for form in _forms(value)}

    def data(self, data: bytes) -> bytes:
        """The bytes without the values."""
        return data if self._found is None else self._found.sub(MASK.encode(), data)

    def text(self, text: str) -> str:
        """The text without the values."""
        if self._found is None:
            return text
        return self.data(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def within(self, given: T) -> T:
        """The same with every text in it masked: plain data, and dataclasses of it."""
        return given if self._found is None else self._within(given)

    def _within(self, given: Any) -> Any:
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

    def clean_files(self, directory: Path) -> tuple[str, ...]:
        """Take the values out of the files below a directory; links are not followed.

        Returns:
            Files that hold one and could not be cleaned, because they are no text or cannot be written.
        """
        return () if self._found is None else tuple(self._cleaned(directory))

    def _cleaned(self, directory: Path) -> Iterator[str]:
        for place, _, names in os.walk(directory):
            for name in names:
                path = Path(place, name)
                try:
                    about = path.lstat()
                    if not stat.S_ISREG(about.st_mode) or not self._holds(path):
                        continue
                    if not self._rewrite(path, about):
                        yield str(path.relative_to(directory))
                except OSError:
                    yield str(path.relative_to(directory))

    def _holds(self, path: Path) -> bool:
        assert self._found is not None
        before = b""
        with _opened(path) as file:
            while chunk := file.read(_CHUNK):
                if self._found.search(before + chunk):
                    return True
                before = chunk[-self._longest :]
        return False

    def _rewrite(self, path: Path, about: os.stat_result) -> bool:
        with _opened(path) as file:
            data = file.read()
        if b"\0" in data:
            return False
        temp = path.with_name(f".{uuid4().hex}.tmp")
        try:
            temp.write_bytes(self.data(data))
            temp.chmod(stat.S_IMODE(about.st_mode))
            os.utime(temp, ns=(about.st_atime_ns, about.st_mtime_ns))
            temp.replace(path)
        finally:
            with suppress(FileNotFoundError):
                temp.unlink()
        return True


def _opened(path: Path) -> Any:
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def _forms(value: str) -> Iterator[bytes]:
    raw = value.encode("utf-8", "surrogateescape")
    yield raw
    yield json.dumps(value)[1:-1].encode()
    yield json.dumps(value, ensure_ascii=False)[1:-1].encode("utf-8", "surrogateescape")
    yield quote(raw, safe="").encode()
    yield quote_plus(raw).encode()
    yield raw.hex().encode()
    yield raw.hex().upper().encode()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            # Characters that hold bits of its neighbours too are left out.
            coded = encode(b"\0" * before + raw).rstrip(b"=")
            yield coded[(0, 2, 3)[before] : None if (before + len(raw)) % 3 == 0 else -1]
