"""What both sides keep of a stream that may be lost, and how they prove to each other who they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.runtime import resume, wire

STEPS = st.lists(
    st.tuples(st.just("send"), st.binary(max_size=30))
    | st.tuples(st.just("arrive"), st.integers(0, 40))
    | st.tuples(st.just("acknowledge"), st.none())
    | st.tuples(st.just("lose"), st.integers(0, 40)),
    max_size=60,
)


@given(STEPS)
def test_a_peer_has_every_byte_once_wherever_streams_are_lost(steps: list[tuple[str, object]]) -> None:
    kept, meant, has = resume.Kept(), b"", b""
    under_way: list[bytes | bytearray] = []
    for step, value in steps:
        if step == "send":
            assert isinstance(value, bytes)
            meant += value
            kept.add(value)
            under_way.append(value)
        elif step == "acknowledge":
            kept.acknowledge(len(has))
            assert kept.size == len(meant) - len(has)
        else:
            assert isinstance(value, int)
            coming = b"".join(under_way)
            has, under_way = has + coming[:value], [coming[value:]]
            if step == "lose":
                again = kept.take_back(len(has))
                for piece in again:
                    kept.add(piece)
                under_way = again
        assert has + b"".join(under_way) == meant
        assert sum(map(len, kept._pieces)) <= kept.size + 30


@given(st.binary(max_size=50), st.integers(0, 100), st.integers(0, 100))
def test_a_number_that_cannot_be_is_malformed_and_changes_nothing(sent: bytes, before: int, count: int) -> None:
    kept = resume.Kept()
    kept.add(sent)
    kept.acknowledge(min(before, len(sent)))
    known = kept.acknowledged
    if count > len(sent):
        with pytest.raises(wire.Malformed):
            kept.acknowledge(count)
    if not known <= count <= len(sent):
        with pytest.raises(wire.Malformed):
            kept.take_back(count)
        assert b"".join(kept.take_back(known)) == sent[known:]
    else:
        assert b"".join(kept.take_back(count)) == sent[count:]


SECRET, CHALLENGE, NONCE = b"s" * 32, b"c" * 16, b"n" * 16


def test_each_side_believes_the_other_and_nobody_else() -> None:
    said = resume.answer(SECRET, CHALLENGE, NONCE, 77)
    assert len(said) == resume.ANSWER_BYTES
    assert resume.received_by_host(SECRET, CHALLENGE, said) == 77
    confirmed = resume.confirmation(SECRET, CHALLENGE, NONCE, 88)
    assert len(confirmed) == resume.CONFIRMATION_BYTES
    assert resume.received_by_runtime(SECRET, CHALLENGE, NONCE, confirmed) == 88
    for secret, challenge in ((b"t" * 32, CHALLENGE), (SECRET, b"d" * 16)):
        with pytest.raises(wire.Malformed, match="secret"):
            resume.received_by_host(secret, challenge, said)
        with pytest.raises(wire.Malformed, match="secret"):
            resume.received_by_runtime(secret, challenge, NONCE, confirmed)
    # What one side says cannot be sent back to it as the other's.
    with pytest.raises(wire.Malformed):
        resume.received_by_runtime(SECRET, CHALLENGE, NONCE, said[resume.NONCE_BYTES :])


@given(st.binary(max_size=80))
def test_whatever_is_said_without_the_secret_is_malformed(said: bytes) -> None:
    with pytest.raises(wire.Malformed):
        resume.received_by_host(SECRET, CHALLENGE, said)
    with pytest.raises(wire.Malformed):
        resume.received_by_runtime(SECRET, CHALLENGE, NONCE, said)
