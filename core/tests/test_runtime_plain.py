"""The bytes that results of Python calls travel as."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentix.runtime import plain
from agentix.runtime.wire import Malformed

LIMIT = 1 << 20

zones = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
keys = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(st.characters()),
    st.binary(),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.datetimes(timezones=st.none() | zones),
    st.uuids(),
    st.decimals(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).map(Path),
)
values = st.recursive(
    keys | st.floats(allow_nan=False),
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(keys, inner),
        st.tuples(inner, inner),
        st.frozensets(keys),
        st.sets(keys),
    ),
    max_leaves=20,
)


def same(one: Any, other: Any) -> bool:
    """Equal and of the same types; `1 == True == 1.0` to Python."""
    if type(one) is not type(other) or one != other:
        return False
    if isinstance(one, list | tuple):
        return all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict):
        return all(same(a, b) for a, b in zip(one.items(), other.items(), strict=True))
    return True


@given(values)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    assert same(plain.decode(plain.encode(value, limit=LIMIT), limit=LIMIT), value)


@settings(max_examples=500)
@given(st.binary(max_size=200))
def test_bytes_of_anybody_are_a_value_or_malformed(raw: bytes) -> None:
    with suppress(Malformed, plain.TooLarge):
        plain.decode(raw, limit=LIMIT)


@settings(max_examples=500)
@given(values, st.data())
def test_damaged_values_are_a_value_or_malformed(value: Any, data: st.DataObject) -> None:
    raw = plain.encode(value, limit=LIMIT)
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place : place + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=6))
    with suppress(Malformed, plain.TooLarge):
        plain.decode(raw, limit=LIMIT)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "cut off"),
        (b"i123", "cut off"),
        (b"s\xff\xff\xff\xff", "cut off"),
        (b"l\xff\xff\xff\xff", "cut off"),
        (b"m\x00\x00\x00\x02nnn", "cut off"),
        (b"nn", "1 bytes follow"),
        (b"\x80\x04K\x01.", "no value starts with 128"),
        (b"s\x00\x00\x00\x01\xff", "none of its type"),
        (b"D\x00\x00\x00\x03abc", "none of its type"),
        (b"U\x00\x00\x00\x01x", "none of its type"),
        (b"C\x00\x00\x00\x01x", "none of its type"),
        (b"E" + b"\x7f" * 16, "none of its type"),
        (b"m\x00\x00\x00\x01l\x00\x00\x00\x00n", "none of its type"),
        (b"l\x00\x00\x00\x01" * 200 + b"n", "nested too deeply"),
    ],
)
def test_what_is_no_value_is_named(raw: bytes, message: str) -> None:
    with pytest.raises(Malformed, match=message):
        plain.decode(raw, limit=LIMIT)


def test_many_small_values_count_for_what_they_take_in_memory() -> None:
    with pytest.raises(plain.TooLarge):
        plain.encode([[]] * 2000, limit=100_000)
    raw = plain.encode([[]] * 2000, limit=LIMIT)
    with pytest.raises(plain.TooLarge, match="more values"):
        plain.decode(raw, limit=100_000)


def test_a_value_of_the_limits_size_passes_both_sides() -> None:
    raw = plain.encode(bytes(99_000), limit=100_000)
    assert plain.decode(raw, limit=100_000) == bytes(99_000)
    with pytest.raises(plain.TooLarge):
        plain.encode(bytes(100_000), limit=100_000)


def test_subclasses_are_sent_as_what_they_are_below() -> None:
    class Text(str):
        def __str__(self) -> str:
            return "other"

    class Number(int):
        def __int__(self) -> int:
            return 0

    found = plain.decode(plain.encode([Text("a"), Number(5), type("F", (float,), {})(1.5)], limit=LIMIT), limit=LIMIT)
    assert same(found, ["a", 5, 1.5])


def test_times_keep_their_zone_and_floats_their_bits() -> None:
    moment = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    sent = [moment, date.min, time.max, timedelta.max, -0.0, math.inf, Decimal("-1E+3"), UUID(int=0), Path("/")]
    found = plain.decode(plain.encode(sent, limit=LIMIT), limit=LIMIT)
    assert same(found, sent)
    assert found[0].utcoffset() == timedelta(hours=5, minutes=30)
    assert math.copysign(1, found[4]) == -1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda: None, "no plain data"),
        (int, "a class is not data"),
        (iter(()), "no plain data"),
        (1j, "no plain data"),
    ],
)
def test_what_is_no_data_is_refused_with_where_it_is(value: Any, message: str) -> None:
    with pytest.raises(plain.CannotLower, match=message) as caught:
        plain.encode({"a": ({1: [value]},)}, limit=LIMIT)
    assert caught.value.path == "result['a'][0][1][0]"
