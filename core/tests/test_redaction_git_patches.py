"""A binary part of a git patch holds what the file held, and nobody who looks at it sees that."""

from __future__ import annotations

import base64
import gzip
import os
import subprocess
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.redaction import Redactor, Secrets, scan
from agentix.redaction.git_patches import BinaryParts

VALUE = "canary-0123456789"
SECRETS = Secrets([VALUE])


def git(place: Path, *words: str) -> bytes:
    options = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *options, *words], cwd=place, check=True, capture_output=True).stdout


def patch_of(place: Path, before: bytes | None, after: bytes) -> bytes:
    place.mkdir()
    git(place, "init", "-q")
    (place / "other").write_text("text")
    if before is not None:
        (place / "file").write_bytes(before)
    git(place, "add", ".")
    git(place, "commit", "-qm", "x")
    (place / "file").write_bytes(after)
    (place / "other").write_text("other text")
    git(place, "add", ".")
    return git(place, "diff", "--cached", "--binary", "--full-index")


NOISE = os.urandom(6000)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, b"\0" + VALUE.encode()),
        (None, NOISE + VALUE.encode() + NOISE),
        (None, gzip.compress(VALUE.encode())),
        (b"\0" + VALUE.encode(), b"\0"),
        (NOISE, NOISE[:3000] + VALUE.encode() + NOISE[3000:]),
        (NOISE, NOISE[:3000] + b"." * 120 + VALUE.encode() + b"." * 120 + NOISE[3000:]),
    ],
    ids=["new", "among others", "compressed in it", "removed", "inserted", "over two insertions"],
)
def test_a_patch_with_a_value_in_a_binary_part_is_refused_and_found(
    tmp_path: Path, before: bytes | None, after: bytes
) -> None:
    patch = tmp_path / "patch.diff"
    patch.write_bytes(patch_of(tmp_path / "repo", before, after))
    assert b"GIT binary patch" in patch.read_bytes() and VALUE.encode() not in patch.read_bytes()
    result = Redactor(SECRETS).file(patch, tmp_path / "copy")
    assert not result.files and "binary part of a git patch" in result.refused["patch.diff"]
    assert not (tmp_path / "copy").exists()
    assert [found.form for found in scan(patch, SECRETS)] == ["plain"]
    (tmp_path / "patch.gz").write_bytes(gzip.compress(patch.read_bytes()))
    assert [found.form for found in scan(tmp_path / "patch.gz", SECRETS)] == ["plain"]
    assert VALUE not in str(result) + str(scan(patch, SECRETS))


def test_a_patch_without_one_stays_as_it_is(tmp_path: Path) -> None:
    patch = tmp_path / "patch.diff"
    patch.write_bytes(patch_of(tmp_path / "repo", NOISE, NOISE[:3000] + b"harmless" + NOISE[3000:]))
    assert Redactor(SECRETS).file(patch, tmp_path / "copy").files == 1
    assert (tmp_path / "copy").read_bytes() == patch.read_bytes()
    assert scan(patch, SECRETS) == []


def part(content: bytes) -> bytes:
    packed = zlib.compress(content)
    lines = [packed[place : place + 52] for place in range(0, len(packed), 52)]
    sizes = [chr(len(line) + 0x40 if len(line) <= 26 else len(line) + 0x46).encode() for line in lines]
    coded = [size + base64.b85encode(line, pad=True) + b"\n" for size, line in zip(sizes, lines, strict=True)]
    return b"GIT binary patch\nliteral %d\n%b\n" % (len(content), b"".join(coded))


@given(st.binary(max_size=400), st.binary(max_size=400), st.lists(st.integers(1, 200), min_size=1))
def test_parts_are_the_same_wherever_pieces_end(one: bytes, other: bytes, sizes: list[int]) -> None:
    text = b"before\n" + part(one) + b"between" + part(other).rstrip(b"\n")
    parts, found, place, number = BinaryParts(), list[bytes](), 0, 0
    while place < len(text):
        size = sizes[number % len(sizes)]
        found += parts.feed(text[place : place + size])
        place, number = place + size, number + 1
    found += parts.flush()
    assert found == [one, other]


def test_patches_in_one_another_are_refused_where_they_are_too_many(tmp_path: Path) -> None:
    content = b"deep"
    for _ in range(20):
        content = part(content)
    (tmp_path / "deep").write_bytes(content)
    assert "more than 5 in one another" in Redactor(SECRETS).file(tmp_path / "deep", tmp_path / "copy").refused["deep"]
