from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.runtime import archive
from agentix.runtime.wire import Malformed

NAMES = st.binary(min_size=1, max_size=300).filter(lambda name: not set(name) & {0, ord("/")} and name != b".")


def written(entries: list[tuple[archive.Entry, bytes]]) -> bytes:
    stream = b""
    for entry, content in entries:
        stream += archive.head(entry) + content + archive.padding(len(content))
    return stream + archive.end()


def read(stream: bytes, cut: int) -> list[tuple[archive.Entry, bytes]]:
    reader = archive.TarReader()
    found: list[tuple[archive.Entry, bytes]] = []
    for at in range(0, len(stream), cut):
        for entry, content in reader.feed(stream[at : at + cut]):
            if entry is not None:
                found.append((entry, b""))
            else:
                found[-1] = found[-1][0], found[-1][1] + content
    assert reader.ended
    return found


@given(
    st.lists(st.tuples(NAMES, st.binary(max_size=1500), st.integers(0, 0o7777)), max_size=5),
    st.integers(1, 3000),
)
def test_files_survive_any_cutting_of_the_stream(files: list[tuple[bytes, bytes, int]], cut: int) -> None:
    entries = [
        (archive.Entry(path, archive.FILE, mode=mode, size=len(content), mtime=7), content)
        for path, content, mode in files
    ]
    found = read(written(entries), cut)
    assert [(entry.path, entry.mode, entry.mtime, content) for entry, content in found] == [
        (path, mode, 7, content) for path, content, mode in files
    ]


@given(NAMES, NAMES)
def test_tarfile_reads_what_is_written(path: bytes, target: bytes) -> None:
    stream = written(
        [
            (archive.Entry(path, archive.FILE, mode=0o751, size=3), b"abc"),
            (archive.Entry(b"d", archive.DIRECTORY, mode=0o700), b""),
            (archive.Entry(b"l", archive.LINK, target=target), b""),
        ]
    )
    with tarfile.open(fileobj=io.BytesIO(stream), encoding="utf-8", errors="surrogateescape") as tar:
        file, directory, link = tar.getmembers()
        assert (file.name.encode("utf-8", "surrogateescape"), file.mode) == (path, 0o751)
        content = tar.extractfile(file)
        assert content is not None
        assert content.read() == b"abc"
        assert directory.isdir()
        assert link.linkname.encode("utf-8", "surrogateescape") == target


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT])
def test_what_tarfile_writes_is_read(format: int) -> None:
    buffer = io.BytesIO()
    long = "d/" * 60 + "file"
    with tarfile.open(fileobj=buffer, mode="w", format=format) as tar:
        info = tarfile.TarInfo(long)
        info.size = 700
        tar.addfile(info, io.BytesIO(b"x" * 700))
    ((entry, content),) = read(buffer.getvalue(), 4096)
    assert entry.path == long.encode()
    assert content == b"x" * 700


def test_a_file_of_many_gigabytes_has_its_size_in_a_pax_record() -> None:
    reader = archive.TarReader()
    ((entry, _),) = reader.feed(archive.head(archive.Entry(b"big", archive.FILE, size=1 << 40)))
    assert entry is not None
    assert entry.size == 1 << 40


@given(st.binary(max_size=2000))
def test_any_bytes_are_an_archive_or_malformed(stream: bytes) -> None:
    reader = archive.TarReader()
    try:
        reader.feed(stream)
    except Malformed:
        return
    assert len(reader._buffer) <= len(stream)


@given(st.data())
def test_a_damaged_head_is_malformed(data: st.DataObject) -> None:
    stream = bytearray(written([(archive.Entry(b"f", archive.FILE, size=3), b"abc")]))
    at = data.draw(st.integers(0, 511))
    stream[at] ^= data.draw(st.integers(1, 255))
    reader = archive.TarReader()
    try:
        found = reader.feed(bytes(stream))
    except Malformed:
        return
    # Whatever passes the checksum differs in its padding only.
    entry = found[0][0]
    assert entry is not None
    assert (entry.path, entry.size) == (b"f", 3)


def test_a_pax_head_without_end_is_refused() -> None:
    endless = archive._block(b"pax", b"x", 0o644, 1 << 30, b"", 0)
    with pytest.raises(Malformed, match="pax head"):
        archive.TarReader().feed(endless)
