"""Which secrets were known when something was redacted, and which are now; the ledger keeps digests and no value."""

from __future__ import annotations

import threading

from agentix.api import Secrets
from agentix.plugins.experiments.publishing.ledger import Ledger, digest


class Known:
    """What is known of secrets, as marks: numbers that the ledger has for sets of secrets.

    Args:
        secrets: What is known, which may become more.
        ledger: Keeps the marks.
    """

    def __init__(self, secrets: Secrets, ledger: Ledger) -> None:
        self._secrets = secrets
        self._ledger = ledger
        self._lock = threading.Lock()
        self._digests: dict[str, str] = {}
        self._now: tuple[frozenset[str], int] = (frozenset(), -1)
        self._covering: dict[int, bool] = {}

    def mark(self) -> int:
        """The mark of what is known now."""
        values = self._secrets.values
        if self._now[1] < 0 or self._now[0] != values:
            with self._lock:
                for value in values - self._digests.keys():
                    self._digests[value] = digest(value, salt=self._ledger.salt)
                known = frozenset(self._digests[value] for value in values)
                self._now = (values, self._ledger.mark(known))
                self._covering = {number: known <= mark for number, mark in enumerate(self._ledger.marks)}
        return self._now[1]

    def covers(self, mark: int) -> bool:
        """Whether everything that is known now was known then."""
        self.mark()
        return self._covering.get(mark, False)

    def has_all_of(self, mark: int) -> bool:
        """Whether everything that was known then is known now."""
        return self._ledger.marks[mark] <= self._ledger.marks[self.mark()]

    def with_all_of(self, mark: int) -> int:
        """The mark of what is known now and what was known then."""
        now = self._ledger.marks[self.mark()]
        both = self._ledger.mark(self._ledger.marks[mark] | now)
        self._covering[both] = True
        return both
