from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentix.runtime.kept import Kept


@given(st.lists(st.binary(max_size=50)), st.integers(0, 200))
def test_up_to_the_limit_everything_is_kept_and_above_it_head_and_tail(pieces: list[bytes], limit: int) -> None:
    kept = Kept(limit)
    for piece in pieces:
        kept.add(piece)
    whole = b"".join(pieces)
    if len(whole) <= limit:
        assert kept.value() == whole
    else:
        assert kept.value() == whole[: limit - limit // 2] + whole[len(whole) - limit // 2 :]


def test_a_flood_costs_no_memory() -> None:
    kept = Kept(1000)
    for _ in range(10_000):
        kept.add(b"x" * 1000)
        assert len(kept._head) + len(kept._tail) < 100_000
