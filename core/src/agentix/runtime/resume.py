"""How a stream that was lost goes on as another one, with nothing missing and nothing twice.

Everything that one side sends, on its first stream and on those that follow, is one sequence of bytes. Each side counts
what it received, and keeps what it sent until the other has acknowledged it. A new stream begins with a challenge of
the runtime; the host's answer proves that it knows the secret and says how much has come, and the runtime's
confirmation does the same. Then each goes on where the other stopped. Neither believes the other's numbers.
"""

from __future__ import annotations

from _collections import deque  # type: ignore[import-not-found]
from _operator import _compare_digest

from agentix.runtime import wire

SECRET_BYTES = 32
NONCE_BYTES = 16
CONFIRMATION_BYTES = 8 + 32
ANSWER_BYTES = NONCE_BYTES + CONFIRMATION_BYTES

ACKNOWLEDGED_EVERY = 1 << 18
"""After so many bytes their receiver says that it has them."""
KEPT = 1 << 22
"""With so many bytes that are not acknowledged, no more bulk data is sent."""


class Kept:
    """What was sent, from the last byte on that the other side has acknowledged."""

    def __init__(self) -> None:
        self.sent = 0
        """How many bytes were ever sent."""
        self.acknowledged = 0
        """How many of them the other side has."""
        self._pieces: deque[bytes | bytearray] = deque()
        self._begin = 0

    @property
    def size(self) -> int:
        """How many bytes are under way."""
        return self.sent - self.acknowledged

    def add(self, piece: bytes | bytearray) -> None:
        """Keep what is sent now; nobody may change it afterwards."""
        if piece:
            self._pieces.append(piece)
            self.sent += len(piece)

    def acknowledge(self, count: int) -> None:
        """Let go of what has arrived.

        Args:
            count: How many bytes have, of all that were ever sent. What says less than was known was under way when
                a stream was lost, and means nothing.

        Raises:
            Malformed: More than were sent.
        """
        if count > self.sent:
            raise wire.Malformed(f"{count} bytes were acknowledged of {self.sent} that were sent")
        self.acknowledged = max(self.acknowledged, count)
        pieces = self._pieces
        while pieces and self._begin + len(pieces[0]) <= count:
            self._begin += len(pieces.popleft())

    def take_back(self, count: int) -> list[bytes | bytearray]:
        """What has to be sent again where the other side has `count` bytes; it is not kept any longer.

        Raises:
            Malformed: More than were sent, or fewer than it had before.
        """
        if count < self.acknowledged:
            raise wire.Malformed(f"{count} bytes have arrived, after {self.acknowledged} were acknowledged")
        self.acknowledge(count)
        pieces = [*self._pieces]
        if pieces and self._begin < count:
            pieces[0] = bytes(pieces[0][count - self._begin :])
        self._pieces.clear()
        self._begin = self.sent = count
        return pieces


def answer(secret: bytes, challenge: bytes, nonce: bytes, received: int) -> bytes:
    """What the host answers to a challenge.

    Args:
        secret: What only the two know.
        challenge: The runtime's, new for each stream.
        nonce: The host's own challenge.
        received: How many bytes it has received on all streams.
    """
    return nonce + _proven(secret, b"host" + challenge + nonce, received)


def confirmation(secret: bytes, challenge: bytes, nonce: bytes, received: int) -> bytes:
    """What the runtime says to a right answer."""
    return _proven(secret, b"runtime" + challenge + nonce, received)


def received_by_host(secret: bytes, challenge: bytes, said: bytes) -> int:
    """How many bytes the host has.

    Raises:
        Malformed: Whoever answered does not know the secret.
    """
    return _count(secret, b"host" + challenge + said[:NONCE_BYTES], said[NONCE_BYTES:])


def received_by_runtime(secret: bytes, challenge: bytes, nonce: bytes, said: bytes) -> int:
    """How many bytes the runtime has.

    Raises:
        Malformed: Whoever confirms does not know the secret.
    """
    return _count(secret, b"runtime" + challenge + nonce, said)


def _proven(secret: bytes, what: bytes, received: int) -> bytes:
    # Loaded when a stream was lost, since most never are.
    from _blake2 import blake2b

    count = received.to_bytes(8, "big")
    return count + blake2b(what + count, key=secret, digest_size=32).digest()


def _count(secret: bytes, what: bytes, said: bytes) -> int:
    received = int.from_bytes(said[:8], "big")
    if not _compare_digest(said, _proven(secret, what, received)):
        raise wire.Malformed("it does not know the sandbox's secret")
    return received
