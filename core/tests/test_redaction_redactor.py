"""Texts, data and streams are without secrets afterwards, and otherwise as they were."""

from __future__ import annotations

import base64
import json
from collections import Counter
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentix.redaction import RedactionRules, Redactor, Secrets
from agentix.redaction.blocks import Filter

VALUE = 'sk-CANARY/"+7é-0123456789'
SIGNS = ["a", "Z", "0", "_", "-", ".", " ", "\n", "\\n", "\r\n", "\\", '"', "'", "é", *":=&?/{},", "***"]
PARTS = ["sk-", "sk-ant-", "0123456789abcdef", "8.8.8.8", "2001:db8::1", "version ", "https://u:pw@h/", "?sig=abcd"]
HEADERS = ["Authorization: Bearer ", "Cookie: a=b", '"x-api-key": "abcdefgh1"', "-----BEGIN PRIVATE KEY-----"]
FORMS = [VALUE, VALUE[:9], VALUE[9:], VALUE.encode().hex(), base64.b64encode(VALUE.encode()).decode(), quote(VALUE)]
ALPHABET = st.sampled_from([*SIGNS, *PARTS, *HEADERS, *FORMS])
TEXTS = st.lists(ALPHABET, max_size=40).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
REDACTOR = Redactor(Secrets([VALUE, "12345678"]), rules=RedactionRules(extra_patterns=("OPS-[0-9]+",)))


@given(TEXTS)
def test_redacting_again_changes_nothing(text: str) -> None:
    once = REDACTOR.text(text)
    assert REDACTOR.text(once) == once
    assert VALUE not in once
    assert VALUE.encode().hex() not in once


@given(JSON, st.sampled_from([None, 2]), st.booleans())
def test_json_stays_json(data: Any, indent: int | None, ascii_only: bool) -> None:
    masked = REDACTOR.text(json.dumps(data, indent=indent, ensure_ascii=ascii_only))
    json.loads(masked)
    assert REDACTOR.text(masked) == masked


@given(st.text("abcdefg ,.\n\t(){}=+äö€0123456789", max_size=300))
def test_a_text_without_secrets_stays_as_it_is(text: str) -> None:
    assert REDACTOR.text(text, ips=False) == text or "12345678" in text.replace("\n", "")


@given(JSON)
def test_data_without_secrets_is_equal(data: Any) -> None:
    assert Redactor(Secrets(["not-in-there"])).data({"n": 1, "t": [1.5, None, True, "x"]}) == {
        "n": 1,
        "t": [1.5, None, True, "x"],
    }
    masked = REDACTOR.data(data)
    assert REDACTOR.data(masked) == masked
    assert VALUE not in json.dumps(masked, ensure_ascii=False).replace("\\", "")


@settings(deadline=None)
@given(
    st.lists(TEXTS, max_size=12),
    st.integers(0, 400),
    st.lists(st.integers(1, 700), min_size=1, max_size=20),
)
def test_a_stream_is_redacted_alike_whatever_pieces_it_comes_in(
    texts: list[str], filling: int, sizes: list[int]
) -> None:
    data = ("." * filling + " \n").join(texts).encode()
    whole, pieces = Counter[str](), Counter[str]()
    stages = REDACTOR.stages(ips=True)
    at_once = Filter(stages, reach=600, counts=whole)
    assert at_once.feed(data) == b""
    expected = at_once.flush()
    stream = Filter(stages, reach=600, counts=pieces, block=64)
    done, place = [], 0
    while place < len(data):
        size = sizes[len(done) % len(sizes)]
        done.append(stream.feed(data[place : place + size]))
        place += size
    done.append(stream.flush())
    assert b"".join(done) == expected
    assert pieces == whole


def test_a_value_across_the_border_of_two_blocks_is_found() -> None:
    secrets = Secrets([VALUE])
    for place in range(-28, 2, 3):
        counts: Counter[str] = Counter()
        stream = Redactor(secrets).filter(ips=False, counts=counts)
        start = 3 * (1 << 20) + place
        data = b"." * start + VALUE.encode() + b"." * (1 << 20)
        done = [stream.feed(data[at : at + (1 << 20)]) for at in range(0, len(data), 1 << 20)]
        assert b"".join([*done, stream.flush()]) == b"." * start + b"***" + b"." * (1 << 20)
        assert counts == {"known_value": 1}


def test_data_is_masked_down_to_its_keys() -> None:
    counts: Counter[str] = Counter()
    data = {
        VALUE: 1,
        "***": 2,
        "list": [VALUE, (VALUE, 3)],
        "pin": 12345678,
        "near": 123456.5,
        "Authorization": "Bearer abc",
        "headers": [["x-api-key", "abcdefgh1"], ("Cookie", "a=b")],
        "at": "8.8.8.8",
        "version": "1.2.3.4",
        "ok": True,
    }
    assert REDACTOR.data(data, counts=counts) == {
        "***-2": 1,
        "***": 2,
        "list": ["***", ("***", 3)],
        "pin": "***",
        "near": 123456.5,
        "Authorization": "Bearer ***",
        "headers": [["x-api-key", "***"], ("Cookie", "***")],
        "at": "***",
        "version": "1.2.3.4",
        "ok": True,
    }
    assert counts == {"known_value": 4, "auth_header": 1, "api_key": 1, "cookie": 1, "ip": 1}
    assert REDACTOR.data("8.8.8.8", ips=False) == "8.8.8.8"


@pytest.mark.parametrize("text", ['{"pin": 12345678, "n": [1.12345678, -12345678e5], "s": "12345678"}'])
def test_a_number_in_json_that_is_a_secret_becomes_a_text(text: str) -> None:
    assert json.loads(REDACTOR.text(text)) == {"pin": "***", "n": ["***", "***"], "s": "***"}


def test_a_trace_of_the_shell_holds_no_token() -> None:
    secrets = Secrets(["tok-0a9b8c7d6e"])
    trace = "+ curl -H 'Authorization: Bearer tok-0a9b8c7d6e' https://api.example/v1\n++ T=tok-0a9b8c7d6e\n"
    assert Redactor(secrets).text(trace) == "+ curl -H 'Authorization: Bearer ***' https://api.example/v1\n++ T=***\n"


def test_values_are_found_under_any_name_and_what_is_reversed_is_not() -> None:
    value = "canary-0123456789"
    redactor = Redactor(Secrets([value]))
    environment = "".join(f"{name}={value}\n" for name in ("COOKIE", "FOO", "X"))
    assert redactor.text(environment) == "COOKIE=***\nFOO=***\nX=***\n"
    assert redactor.text(f"+++ b/a\n+{value}\n") == "+++ b/a\n+***\n"
    assert redactor.text(value[::-1]) == value[::-1]
