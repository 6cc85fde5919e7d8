"""Archives of strangers: what is in them stays below one directory."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from agentix.api import unpack_tar


def packed(*members: tuple[str, bytes, bytes | str]) -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            member.type, member.mode = kind, 0o4755
            if isinstance(content, str):
                member.linkname = content
                tar.addfile(member)
            else:
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    file.seek(0)
    return file


def test_files_directories_and_links_inside_come_out(tmp_path: Path) -> None:
    file = packed(
        ("www/", tarfile.DIRTYPE, b""),
        ("www/a", tarfile.REGTYPE, b"content"),
        ("www/b", tarfile.AREGTYPE, b""),
        ("www/l", tarfile.SYMTYPE, "a"),
    )
    assert unpack_tar(file, tmp_path / "out", max_bytes=100, max_entries=10) == ()
    assert (tmp_path / "out/www/l").read_bytes() == b"content"
    assert (tmp_path / "out/www/a").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "out/www/b").read_bytes() == b""


def test_what_leads_outside_or_is_no_file_is_left_out_and_named(tmp_path: Path) -> None:
    file = packed(
        ("../up", tarfile.REGTYPE, b"x"),
        ("/abs", tarfile.REGTYPE, b"x"),
        ("out", tarfile.SYMTYPE, "/etc"),
        ("far", tarfile.SYMTYPE, "../.."),
        ("out/passwd", tarfile.REGTYPE, b"x"),
        ("hard", tarfile.LNKTYPE, "/etc/passwd"),
        ("pipe", tarfile.FIFOTYPE, b""),
        ("zero", tarfile.CHRTYPE, b""),
        ("good", tarfile.REGTYPE, b"x"),
    )
    refused = unpack_tar(file, tmp_path / "here/out", max_bytes=100, max_entries=100)
    assert {r.path for r in refused} >= {b"../up", b"out", b"far", b"hard", b"pipe", b"zero"}
    assert (tmp_path / "here/out/good").read_bytes() == b"x"
    assert {p.name for p in (tmp_path / "here").iterdir()} == {"out"}
    assert not (tmp_path / "up").exists()
    assert not Path("/abs").exists()


def test_too_much_ends_it(tmp_path: Path) -> None:
    members = [(f"f{n}", tarfile.REGTYPE, b"x" * 10) for n in range(20)]
    (few,) = unpack_tar(packed(*members), tmp_path / "a", max_bytes=10**6, max_entries=5)
    assert "more than 5 entries" in few.reason
    (much,) = unpack_tar(packed(*members), tmp_path / "b", max_bytes=55, max_entries=100)
    assert "more than 55 bytes" in much.reason
    assert len(list((tmp_path / "b").iterdir())) == 5
