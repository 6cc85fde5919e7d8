"""What comes over an attached connection, cut apart however it arrives."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream
from hypothesis import given
from hypothesis import strategies as st

from agentix.providers.docker.attached import AttachedStream


class Pieces(ByteStream):
    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if not self.pieces:
            raise anyio.EndOfStream
        return self.pieces.pop(0)

    async def send(self, item: bytes) -> None:
        raise NotImplementedError

    async def send_eof(self) -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        self.pieces.clear()


def frame(kind: int, payload: bytes) -> bytes:
    return bytes((kind, 0, 0, 0)) + len(payload).to_bytes(4, "big") + payload


async def drained(stream: AttachedStream, most: int) -> bytes:
    received = b""
    while True:
        try:
            piece = await stream.receive(most)
        except anyio.EndOfStream:
            return received
        assert 0 < len(piece) <= most
        received += piece


@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 2]), st.binary(max_size=40)), max_size=12),
    st.lists(st.integers(1, 50), max_size=20),
    st.integers(1, 64),
)
def test_stdout_is_the_stream_and_stderr_the_log(frames: list[tuple[int, bytes]], cuts: list[int], most: int) -> None:
    raw = b"".join(frame(kind, payload) for kind, payload in frames)
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(raw[at : at + cut])
        at += cut
    pieces = [piece for piece in [*pieces, raw[at:]] if piece]
    first = pieces.pop(0) if pieces and len(cuts) % 2 else b""
    stream = AttachedStream(Pieces(pieces), first)
    received = anyio.run(drained, stream, most)
    assert received == b"".join(payload for kind, payload in frames if kind != 2)
    assert stream.log == b"".join(payload for kind, payload in frames if kind == 2).decode("utf-8", "replace")


def test_the_log_keeps_its_end_and_no_more() -> None:
    stream = AttachedStream(Pieces([frame(2, b"x" * 100_000) for _ in range(10)] + [frame(2, b"the end")]))
    assert anyio.run(drained, stream, 100) == b""
    assert stream.log.endswith("the end")
    assert len(stream.log) < 1 << 17


def test_what_is_no_frame_breaks_the_stream() -> None:
    async def receive() -> Any:
        return await AttachedStream(Pieces([b"HTTP/1.1 200"])).receive()

    with pytest.raises(anyio.BrokenResourceError):
        anyio.run(receive)
