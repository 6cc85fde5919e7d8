"""A key is in nothing that is written, in whatever form it comes."""

from __future__ import annotations

import base64
import copy
import html
import json
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.api import Failure, FailureCode, Rollout
from agentix.redaction import Secrets

KEY = 'sk-CANARY/"+7é'


VALUES = st.text(st.characters(exclude_characters="*", exclude_categories=["Cs"]), min_size=8, max_size=40)
AROUND = st.binary(max_size=20)


def every_form(value: str) -> dict[str, bytes]:
    raw = value.encode()
    quoted = json.dumps(value)[1:-1]
    return {
        "raw": raw,
        "json": quoted.encode(),
        "json as it is": json.dumps(value, ensure_ascii=False)[1:-1].encode(),
        "json in json": json.dumps(quoted)[1:-1].encode(),
        "python": repr(value)[1:-1].encode(),
        "url": quote(value, safe="").encode(),
        "path": quote(value).encode(),
        "form": quote_plus(value).encode(),
        "all but letters and digits": re.sub(rb"[^A-Za-z0-9]", lambda found: b"%%%02x" % ord(found[0]), raw),
        "everything": b"".join(b"%%%02X" % byte for byte in raw),
        "hex": raw.hex().encode(),
        "HEX": raw.hex().upper().encode(),
        "utf-16": value.encode("utf-16-le"),
        "html": html.escape(value).encode(),
        "html text": html.escape(value, quote=False).encode(),
        "jinja": html.escape(value).replace("&#x27;", "&#39;").replace("&quot;", "&#34;").encode(),
        "xml": escape(value, {'"': "&quot;", "'": "&apos;"}).encode(),
        "ascii xml": html.escape(value).encode("ascii", "xmlcharrefreplace"),
        "csv": value.replace('"', '""').encode(),
        "sql": value.replace("'", "''").encode(),
        "shell": value.replace("'", "'\"'\"'").encode(),
        "bash": value.replace("'", "'\\''").encode(),
    }


@given(AROUND, AROUND, VALUES)
def test_every_common_form_is_found_wherever_it_stands(before: bytes, after: bytes, value: str) -> None:
    value = value.strip()
    secrets = Secrets()
    if not secrets.add(value):
        return
    for name, form in every_form(value).items():
        if form not in before + after:
            assert form not in secrets.data(before + form + after), name


@given(AROUND, AROUND, VALUES, st.sampled_from([base64.b64encode, base64.urlsafe_b64encode]))
def test_base64_is_found_wherever_the_value_begins_in_it(
    before: bytes, after: bytes, value: str, encode: Callable[[bytes], bytes]
) -> None:
    value = value.strip()
    secrets = Secrets()
    if secrets.add(value):
        masked = secrets.data(encode(before + value.encode() + after))
        assert b"***" in masked
        # What is left of the value are bits that it shares a character with.
        assert len(masked) <= len(encode(before + after)) + 3 + 8


@given(
    st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=12, max_size=40),
    st.sampled_from(["\n", "\r\n", "\\n", "\\r\\n", "\\\\n"]),
    st.lists(st.integers(1, 30), min_size=1, max_size=4),
    st.sampled_from(["raw", "hex", "base64"]),
)
def test_a_form_that_is_broken_over_lines_is_found_and_the_lines_stay(
    value: str, line_break: str, places: list[int], form: str
) -> None:
    text = {"raw": value, "hex": value.encode().hex(), "base64": base64.b64encode(value.encode()).decode()}[form]
    end = len(text.rstrip("=")) - (form == "base64")
    pieces, last = [], 0
    for place in sorted({place for place in places if place < end - 1}):
        pieces.append(text[last:place])
        last = place
    broken = line_break.join([*pieces, text[last:]])
    masked = Secrets([value]).text(f"a {broken} b\n")
    # Of base64, a last character may stay that holds two or four bits of the value.
    left = r"[A-Za-z0-9]?={0,2}" if form == "base64" else ""
    assert re.fullmatch(r"a \*{3}(?:[\r\n]+\*{3})*" + left + r" b\n", masked)
    assert masked.count("\n") == f"{broken}\n".count("\n")


def test_a_value_that_begins_like_an_escape_is_found_broken_and_whole() -> None:
    secrets = Secrets(["n0123456789"])
    assert secrets.text(r"C:\n0123456789 n01234\n56789 x\nn0123456789") == r"C:*** *** x\n***"


def test_a_break_may_stand_anywhere() -> None:
    for form in (KEY, KEY.encode().hex(), json.dumps(KEY)[1:-1], quote(KEY, safe="")):
        for place in range(1, len(form)):
            for line_break in ("\n", "\r\n", "\\n", "\\r\\n"):
                masked = Secrets([KEY]).text(f"<{form[:place]}{line_break}{form[place:]}>")
                assert not set(masked) - set("<>*\r\n"), (form, place, line_break)


@given(AROUND, AROUND, VALUES)
def test_a_command_as_powershell_takes_it_is_found(before: bytes, after: bytes, value: str) -> None:
    secrets = Secrets([value])
    if not secrets:
        return
    around = [text.hex().encode("utf-16-le") for text in (before, after)]
    coded = base64.b64encode(around[0] + value.strip().encode("utf-16-le") + around[1])
    assert secrets.spans(coded)


def test_forms_that_other_programs_write_are_found() -> None:
    value = 'a/b&c<d>é"9\\f'
    secrets = Secrets([value])
    for text in (
        'a\\/b&c<d>\\u00e9\\"9\\\\f',  # PHP
        'a/b\\u0026c\\u003cd\\u003e\\u00e9\\"9\\\\f',  # Go
        "a%2fb%26c%3cd%3e%c3%a9%229%5cf",
        'a/b&c<d>\\u00E9\\"9\\\\f',
    ):
        assert secrets.text(text) == "***", text


def test_nothing_that_shows_it_shows_a_value() -> None:
    secrets = Secrets([KEY])
    assert "CANARY" not in repr(secrets) + str(secrets) + f"{secrets}"
    for share in (pickle.dumps, lambda given: json.dumps(given, default=vars)):
        with pytest.raises(TypeError):
            share(secrets)
    with pytest.raises(TypeError, match="secrets are not pickled"):
        pickle.dumps(secrets)


def test_secrets_come_together_and_copies_are_their_own() -> None:
    first, second = Secrets(["first-value"]), Secrets(["second-value"])
    both = first | second
    assert both.text("first-value second-value") == "*** ***"
    assert first.text("second-value") == "second-value"
    first |= second
    assert first == both
    assert len(first) == 2
    copied = copy.deepcopy(second)
    copied.add("third-value")
    assert second.text("third-value") == "third-value"
    copied.update(["fourth-value", "short"])
    assert copied.text("fourth-value short") == "*** short"


def test_values_that_lie_over_each_other_are_gone_both() -> None:
    secrets = Secrets(["abcdefgh-1234", "1234-ijklmnop", "abcdefgh"])
    assert secrets.text("x abcdefgh-1234-ijklmnop y") == "x *** y"


def test_white_space_around_a_value_counts_for_nothing_and_the_mask_is_no_value() -> None:
    secrets = Secrets(["  spaced-value\n", " " * 20, "\n" * 20, "*" * 20])
    assert len(secrets) == 1
    assert secrets.text("[spaced-value]" + " " * 20 + "*" * 20) == "[***]" + " " * 20 + "*" * 20


def test_a_short_value_is_none_to_look_for() -> None:
    masks = Secrets()
    assert not masks.add("EMPTY")
    assert not masks
    assert masks.data(b"EMPTY") == b"EMPTY"


def test_a_rollout_is_masked_down_to_its_keys_and_what_has_none_is_the_same() -> None:
    masks = Secrets([KEY])
    rollout = Rollout(
        "i",
        failure=Failure(code=FailureCode.HOST_ERROR, message=f"no {KEY}"),
        trajectory={"steps": [{KEY: ["x", KEY]}]},
        patch="\udcff" + KEY,
        notes=(KEY,),
    )
    masked = masks.within(rollout)
    assert "CANARY" not in repr(masked)
    assert masked.patch == "\udcff***"
    assert masked.trajectory == {"steps": [{"***": ["x", "***"]}]}
    clean = Rollout("i", score={"reward": 1.0})
    assert masks.within(clean) is clean


def test_a_word_of_ours_stays_where_a_secret_is_the_same_word() -> None:
    failure = Failure(code=FailureCode.HOST_ERROR, message="HOST_ERROR: it broke")
    assert Secrets(["HOST_ERROR"]).within(failure) == Failure(code=FailureCode.HOST_ERROR, message="***: it broke")


def test_names_of_files_are_cleaned_where_they_are(tmp_path: Path) -> None:
    value = "AKx/9zT+canary"
    masks = Secrets(["canary-0123", value])
    (tmp_path / "d-canary-0123" / "deep").mkdir(parents=True)
    (tmp_path / "d-canary-0123" / "deep" / "canary-0123.txt").write_text("canary-0123")
    (tmp_path / "d-canary-0123" / "deep" / "redacted.txt").write_text("other")
    (tmp_path / "d-canary-0123" / "canary-0123.bin").write_bytes(b"\0canary-0123")
    (tmp_path / value).parent.mkdir()
    (tmp_path / value).write_text("x")
    assert masks.clean_files(tmp_path) == ("d-redacted/redacted.bin",)
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    deep = "d-redacted/deep"
    assert files == {f"{deep}/redacted-2.txt", f"{deep}/redacted.txt", "d-redacted/redacted.bin", "AKx/redacted"}
    assert (tmp_path / deep / "redacted-2.txt").read_text() == "***"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_text_in_another_encoding_is_cleaned_too(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "log").write_text(f"before {KEY} after", encoding=encoding)
    assert Secrets([KEY]).clean_files(tmp_path) == ()
    assert (tmp_path / "log").read_text(encoding=encoding) == "before *** after"


def test_of_a_file_that_is_mostly_holes_only_what_there_is_is_read(tmp_path: Path) -> None:
    for name, value in (("clean", b"nothing"), ("keyed", KEY.encode())):
        with (tmp_path / name).open("wb") as file:
            file.seek(1 << 39)
            file.write(value)
            file.truncate(1 << 40)
        if (tmp_path / name).stat().st_blocks > 1 << 20:
            pytest.skip("needs a file system with holes")
    assert Secrets([KEY]).clean_files(tmp_path) == ("keyed",)
    assert (tmp_path / "keyed").stat().st_size == 1 << 40


def test_files_are_cleaned_and_what_cannot_be_is_told(tmp_path: Path) -> None:
    masks = Secrets([KEY])
    outside = tmp_path / "outside.txt"
    outside.write_text(KEY)
    place = tmp_path / "out"
    (place / "deep").mkdir(parents=True)
    script = place / "deep/run.sh"
    script.write_text(f"echo {KEY}")
    script.chmod(0o755)
    (place / "binary").write_bytes(b"\0" + KEY.encode())
    (place / "link").symlink_to(outside)
    os.mkfifo(place / "fifo")
    large = place / "large.txt"
    large.write_text("x" * ((1 << 20) - 5) + KEY)
    assert masks.clean_files(place) == ("binary",)
    assert script.read_text() == "echo ***"
    assert script.stat().st_mode & 0o777 == 0o755
    assert large.read_text().endswith("x***")
    assert outside.read_text() == KEY
    assert sorted(os.listdir(place)) == ["binary", "deep", "fifo", "large.txt", "link"]
