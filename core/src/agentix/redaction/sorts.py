"""What sort of content a file has, told from how it begins."""

from __future__ import annotations

import codecs

HEAD = 512
"""Bytes that are enough to tell."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MAGIC = (
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"\x1f\x8b\x08", "gz"),
    (b"BZh", "bz2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zst"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "rar"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\x1f\x9d", "Z"),
)


def encoding_of(head: bytes) -> tuple[str, bytes]:
    """The encoding that a byte order mark tells, with that mark; UTF-8 and nothing where there is none."""
    return next(((encoding, mark) for mark, encoding in _MARKS if head.startswith(mark)), ("utf-8", b""))


def container_of(head: bytes) -> str | None:
    """Which sort of archive or compressed file begins like that."""
    if head[257:262] == b"ustar":
        return "tar"
    kind = next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)
    if kind == "bz2" and head[4:10] not in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"):
        return None
    return kind


def is_binary(head: bytes) -> bool:
    """Whether it is no text; a zero byte further on tells so too."""
    if container_of(head) is not None or head.startswith(b"%PDF-"):
        return True
    return not encoding_of(head)[1] and b"\0" in head
