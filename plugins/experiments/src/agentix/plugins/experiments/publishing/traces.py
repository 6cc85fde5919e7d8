"""Secrets in files of the run as a whole, which are known again there when nobody else knows them any more.

A file of the experiment, a manifest or a report may quote a password. While that is known, it is taken out of what is
published; in a later session its variable may hold another one, or be gone, and the file still quotes the old one.
What is remembered of it is its length, 16 bits of a checksum and the ledger's slow digest: enough to find it in the
file that holds it, and next to nothing for whoever has only the ledger.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path

from agentix.api import Secrets, open_plain
from agentix.plugins.experiments.publishing.ledger import Ledger, Trace, digest

_LARGEST = 64 << 20
"""Bytes of a file that is looked through."""


class Traces:
    """Remembers secrets where they stand, and finds them there.

    Args:
        secrets: What is known of secrets; what is found again is added.
        ledger: Keeps what is remembered.
    """

    def __init__(self, secrets: Secrets, ledger: Ledger) -> None:
        self._secrets = secrets
        self._ledger = ledger
        self._digests: dict[bytes, str] = {}

    def remember(self, file: Path) -> None:
        """Note which secrets stand in a file."""
        data = _content(file)
        for value in {data[start:end] for start, end, _ in self._secrets.spans(data)}:
            self._ledger.trace(Trace(file.name, len(value), self._sum(value), self._digest(value)))

    def recall(self, directory: Path) -> None:
        """Look for what was remembered in the files of a directory that held it, and know it again."""
        if not self._ledger.traces:
            return
        sums = {(trace.length, trace.sum) for trace in self._ledger.traces}
        known = {self._digest(form) for form in self._secrets.forms() if (len(form), self._sum(form)) in sums}
        missing = [trace for trace in self._ledger.traces if trace.digest not in known]
        for name in sorted({trace.file for trace in missing}):
            data = _content(directory / name)
            for trace in missing:
                if trace.file == name:
                    self._secrets.update(self._found(data, trace))

    def _found(self, data: bytes, trace: Trace) -> Iterable[str]:
        length, wanted, start = trace.length, trace.sum, self._start()
        for place in range(len(data) - length + 1):
            piece = data[place : place + length]
            if zlib.crc32(piece, start) & 0xFFFF == wanted and self._digest(piece) == trace.digest:
                yield piece.decode("utf-8", "surrogateescape")
                return

    def _sum(self, value: bytes) -> int:
        return zlib.crc32(value, self._start()) & 0xFFFF

    def _start(self) -> int:
        return zlib.crc32(self._ledger.salt.encode())

    def _digest(self, value: bytes) -> str:
        if value not in self._digests:
            self._digests[value] = digest(value.decode("utf-8", "surrogateescape"), salt=self._ledger.salt)
        return self._digests[value]


def _content(file: Path) -> bytes:
    try:
        with open_plain(file) as content:
            data = content.read(_LARGEST + 1)
    except OSError:
        return b""
    return data if len(data) <= _LARGEST else b""
