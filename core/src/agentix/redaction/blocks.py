"""Takes secrets out of a stream, whatever pieces it comes in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from agentix.redaction.known import Span
from agentix.redaction.pieces import BLOCK
from agentix.redaction.spans import MASK, taken_out

CONTEXT = 512
"""Bytes before a secret within which everything stands that tells what it is, such as a header's name."""
_ROUNDS = 8
_BESIDE, _NEAR = 4096, 128
_MASK = MASK.encode()

Stage = Callable[[bytes], list[Span]]
"""Finds one sort of secrets."""


def cleaned(
    data: bytes, stages: Sequence[Stage], *, before: int | None = None, counts: Counter[str] | None = None
) -> tuple[bytes, int]:
    """Take out what the stages find, until they find nothing more.

    Args:
        data: Bytes.
        stages: What finds them. Where two find the same, it is of the kind that the first of them tells.
        before: What begins there or later may be incomplete, and stays.
        counts: Where to count, by kind.

    Returns:
        The bytes, and the place that `before` has in them.
    """
    limit = len(data) if before is None else before
    # What was taken out may have kept something beside it from being told: 1.2.3.4 is no address after a letter. So
    # what is beside it is looked at again.
    for number in range(_ROUNDS):
        given = data
        find = _beside_masks if number else _anywhere
        spans = [span for stage in stages for span in find(stage, data)]
        data, limit = taken_out(data, spans, before=limit, counts=counts)
        if data is given:
            break
    return data, limit


def _anywhere(stage: Stage, data: bytes) -> list[Span]:
    return stage(data)


def _beside_masks(stage: Stage, data: bytes) -> list[Span]:
    found: list[Span] = []
    for start, end in _around_masks(data):
        begins = max(0, start - _BESIDE)
        for first, last, kind in stage(data[begins : end + _BESIDE]):
            if first + begins < end and last + begins > start:
                found.append((first + begins, last + begins, kind))
    return found


def _around_masks(data: bytes) -> Iterator[tuple[int, int]]:
    """Pieces of the data that lie near enough to a mask for it to matter to what they are."""
    start = end = -1
    place = data.find(_MASK)
    while place >= 0:
        if start >= 0 and place - _NEAR > end:
            yield start, end
            start = -1
        start = max(0, place - _NEAR) if start < 0 else start
        end = place + len(_MASK) + _NEAR
        place = data.find(_MASK, place + len(_MASK))
    if start >= 0:
        yield start, end


class Filter:
    """Takes secrets out of pieces of bytes; what may be the beginning of one is kept until more is known.

    Args:
        stages: What finds them.
        reach: Bytes that the longest of them may take, with line breaks in it.
        counts: Where to count, by kind.
        block: Bytes to collect before looking through them.
    """

    def __init__(
        self, stages: Sequence[Stage], *, reach: int, counts: Counter[str] | None = None, block: int = BLOCK
    ) -> None:
        self._stages = stages
        self._reach = 2 * reach
        self._counts = counts
        self._block = block
        self._waiting = bytearray()
        self._given = 0
        """Bytes at the beginning of what waits that are out already, and kept as context."""

    def feed(self, data: bytes) -> bytes:
        """One piece more.

        Returns:
            What is sure by now; often nothing.
        """
        self._waiting += data
        if len(self._waiting) < self._given + self._reach + self._block:
            return b""
        return self._through(len(self._waiting) - self._reach)

    def flush(self) -> bytes:
        """The rest, at the end."""
        return self._through(None)

    def _through(self, before: int | None) -> bytes:
        data, given = bytes(self._waiting), self._given
        # What is out cannot be changed, and of what begins there it is not known what stood before it.
        stages = [_after(stage, given) for stage in self._stages] if given else self._stages
        data, sure = cleaned(data, stages, before=before, counts=self._counts)
        if before is None:
            self._waiting, self._given = bytearray(), 0
            return data[given:]
        # What is taken out further on may yet tell what stands just before it.
        sure = max(given, sure - CONTEXT)
        kept = max(0, sure - CONTEXT)
        self._waiting, self._given = bytearray(data[kept:]), sure - kept
        return data[given:sure]


def _after(stage: Stage, place: int) -> Stage:
    return lambda data: [span for span in stage(data) if span[0] >= place]


def piped(given: Iterable[bytes], through: Filter) -> Iterator[bytes]:
    """Pieces, through a filter."""
    for data in given:
        if sure := through.feed(data):
            yield sure
    if rest := through.flush():
        yield rest


class Search:
    """Finds in pieces of bytes what one stage finds, wherever the pieces end.

    Args:
        stage: What finds it.
        reach: Bytes that the longest may take.
    """

    def __init__(self, stage: Stage, *, reach: int) -> None:
        self._stage = stage
        self._reach = 2 * reach
        self._before = b""
        self._begins = 0

    def feed(self, data: bytes) -> list[Span]:
        """What is in one piece more, with places counted from the beginning; it may be told twice."""
        data = self._before + data
        found = [(self._begins + start, self._begins + end, kind) for start, end, kind in self._stage(data)]
        self._before = data[-self._reach :]
        self._begins += len(data) - len(self._before)
        return found
