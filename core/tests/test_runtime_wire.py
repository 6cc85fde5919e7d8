from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentix.runtime import wire

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False)
    | st.binary(max_size=40)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text("abc\xe9", max_size=5), inner, max_size=5),
    max_leaves=20,
)


@given(VALUES)
def test_a_value_survives_the_wire(value: object) -> None:
    assert wire.decode(wire.encode(value)) == value


def test_what_is_no_unicode_survives_as_surrogates() -> None:
    name = b"caf\xe9 \xff".decode("utf-8", "surrogateescape")
    assert wire.decode(wire.encode(name)) == name


def test_not_a_number_survives() -> None:
    assert math.isnan(wire.decode(wire.encode(math.nan)))


@given(st.binary(max_size=200))
@example(b"l\xff\xff\xff\xff")
@example(b"m\x00\x00\x00\x02s\x00\x00\x00\x01an" + b"s\x00\x00\x00\x01an")
@example(b"l\x00\x00\x00\x01" * 1000 + b"n")
def test_any_bytes_decode_to_a_value_or_are_malformed(raw: bytes) -> None:
    try:
        value = wire.decode(raw)
    except wire.Malformed:
        return
    assert wire.decode(wire.encode(value)) == value or value != value or "nan" in repr(value)


@given(VALUES, st.data())
def test_a_truncated_value_is_malformed(value: object, data: st.DataObject) -> None:
    raw = wire.encode(value)
    cut = data.draw(st.integers(0, len(raw) - 1))
    with pytest.raises(wire.Malformed):
        wire.decode(raw[:cut])


@pytest.mark.parametrize("value", [1 << 63, {1: 2}, object(), {"a": {1}}])
def test_what_the_wire_cannot_carry_is_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        wire.encode(value)


FRAMES = st.lists(
    st.tuples(
        st.sampled_from([wire.DATA, wire.RESULT, wire.CREDIT, wire.PONG, wire.ERROR]),
        st.integers(0, (1 << 32) - 1),
        st.binary(max_size=4),
    ),
    max_size=20,
)


@given(FRAMES, st.lists(st.integers(1, 40), max_size=50))
def test_frames_survive_any_cutting_of_the_stream(frames: list[tuple[int, int, bytes]], cuts: list[int]) -> None:
    stream = b"".join(wire.frame(*frame) for frame in frames)
    reader = wire.FrameReader(wire.FROM_RUNTIME)
    found, at = [], 0
    for cut in [*cuts, len(stream) + 1]:
        found += reader.feed(stream[at : at + cut])
        at += cut
    assert found == frames


@given(st.lists(st.binary(max_size=64), max_size=20))
def test_a_reader_takes_any_bytes_without_growing(pieces: list[bytes]) -> None:
    reader = wire.FrameReader(wire.FROM_RUNTIME, max_value=256)
    try:
        for piece in pieces:
            reader.feed(piece)
            assert len(reader._buffer) <= wire.MAX_DATA + 64
    except wire.Malformed:
        pass


def test_a_frame_that_is_too_long_is_refused_before_its_payload_comes() -> None:
    reader = wire.FrameReader(wire.FROM_RUNTIME)
    with pytest.raises(wire.Malformed, match="at most"):
        reader.feed((wire.MAX_DATA + 1).to_bytes(4, "big") + bytes([wire.DATA]) + bytes(4))


@pytest.mark.parametrize("kind", [0, wire.CALL, wire.CANCEL, 77, 255])
def test_a_kind_that_only_the_other_side_sends_is_refused(kind: int) -> None:
    with pytest.raises(wire.Malformed, match="not expected"):
        wire.FrameReader(wire.FROM_RUNTIME).feed(wire.frame(kind, 1))
