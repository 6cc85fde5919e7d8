"""Copies of files hold no secrets, and whatever is not text is kept whole or has no copy."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from agentix.redaction import RedactionResult, RedactionRules, Redactor, Secrets, json_files

VALUE = "canary-0123456789-é"
REDACTOR = Redactor(Secrets([VALUE, "87654321"]))


def copied(
    tmp_path: Path, data: bytes, *, name: str = "a.log", redactor: Redactor = REDACTOR
) -> tuple[RedactionResult, bytes]:
    source, target = tmp_path / name, tmp_path / "copy"
    source.write_bytes(data)
    result = redactor.file(source, target)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name] + ["copy"] * result.files)
    assert source.read_bytes() == data
    source.unlink()
    if not result.files:
        return result, b""
    assert result.bytes == target.stat().st_size
    done = target.read_bytes()
    target.unlink()
    return result, done


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [
        ("utf-8", b""),
        ("utf-8", codecs.BOM_UTF8),
        ("utf-16-le", codecs.BOM_UTF16_LE),
        ("utf-16-be", codecs.BOM_UTF16_BE),
        ("utf-32-le", codecs.BOM_UTF32_LE),
        ("utf-32-be", codecs.BOM_UTF32_BE),
    ],
)
def test_a_text_is_redacted_in_its_own_encoding(tmp_path: Path, encoding: str, mark: bytes) -> None:
    text = f"ä {VALUE}\r\n sk-0123456789abcdef0123 \U0001f600\n" * 3
    result, done = copied(tmp_path, mark + text.encode(encoding))
    assert done == mark + ("ä ***\r\n *** \U0001f600\n" * 3).encode(encoding)
    assert result.counts == {"known_value": 3, "openai_key": 3}
    clean = mark + "ä\r\n\U0001f600".encode(encoding)
    assert copied(tmp_path, clean) == (RedactionResult(files=1, bytes=len(clean)), clean)


def test_bytes_that_are_no_utf_8_stay(tmp_path: Path) -> None:
    assert copied(tmp_path, b"caf\xe9 " + VALUE.encode() + b" \xc3\x28")[1] == b"caf\xe9 *** \xc3\x28"


def test_an_empty_file_is_copied_and_modes_are_plain(tmp_path: Path) -> None:
    source = tmp_path / "run.sh"
    source.write_bytes(b"")
    for mode, wanted in ((0o600, 0o644), (0o4711, 0o755), (0o666, 0o644), (0o777, 0o755)):
        source.chmod(mode)
        assert REDACTOR.file(source, tmp_path / "copy") == RedactionResult(files=1)
        assert (tmp_path / "copy").stat().st_mode & 0o7777 == wanted


def test_addresses_go_from_results_and_stay_in_logs(tmp_path: Path) -> None:
    text = b'{"from": "8.8.8.8", "n": 1.25}\n'
    for name in ("trajectory.json", "traj.jsonl", "results.jsonl", "trial.json", "result.txt", "agent-trajectory.json"):
        assert copied(tmp_path, text, name=name)[1] == b'{"from": "***", "n": 1.25}\n', name
    for name in ("agent.log", "stdout.txt", "patch.diff", "contrail.json"):
        assert copied(tmp_path, text, name=name)[1] == text, name
    everywhere = Redactor(Secrets(), rules=RedactionRules(ips_in_logs=True, ips_in_results=False))
    assert copied(tmp_path, text, name="agent.log", redactor=everywhere)[1] == b'{"from": "***", "n": 1.25}\n'
    assert copied(tmp_path, text, name="trajectory.json", redactor=everywhere)[1] == text


def test_json_stays_valid_on_every_line(tmp_path: Path) -> None:
    lines = [{"pin": 87654321, "s": f"x {VALUE}"}, {"n": 1, "ip": "8.8.8.8"}, {"k": [VALUE, 8765432112]}]
    data = "".join(json.dumps(line) + "\n" for line in lines) + "not json 87654321\n"
    _, done = copied(tmp_path, data.encode(), name="results.jsonl")
    *kept, last = done.decode().splitlines()
    assert [json.loads(line) for line in kept] == [
        {"pin": "***", "s": "x ***"},
        {"n": 1, "ip": "***"},
        {"k": ["***", "***"]},
    ]
    assert last == "not json ***"


@pytest.mark.parametrize("limit", [64 << 20, 10])
def test_a_json_document_stays_valid_however_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(json_files, "WHOLE", limit)
    data = json.dumps({"pin": 87654321, "s": ["\"'\\", VALUE, "***", 1]}, indent=1)
    _, done = copied(tmp_path, data.encode(), name="trajectory.json")
    assert json.loads(done) == {"pin": "***", "s": ["\"'\\", "***", "***", 1]}


def archives(data: bytes) -> dict[str, bytes]:
    tar, zipped, stored = io.BytesIO(), io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        info = tarfile.TarInfo("a/b.txt")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    for file, method in ((zipped, zipfile.ZIP_DEFLATED), (stored, zipfile.ZIP_STORED)):
        with zipfile.ZipFile(file, "w", method) as packed:
            packed.writestr("a/b.txt", data)
    made = {
        "a.tar": tar.getvalue(),
        "a.zip": zipped.getvalue(),
        "stored.zip": stored.getvalue(),
        "a.gz": gzip.compress(data),
        "a.bz2": bz2.compress(data),
        "a.xz": lzma.compress(data),
        "a.tar.gz": gzip.compress(tar.getvalue()),
        "a.tar.xz": lzma.compress(tar.getvalue()),
        "zip.tar.bz2": bz2.compress(tar.getvalue()),
        "deep.gz": gzip.compress(bz2.compress(lzma.compress(zipped.getvalue()))),
        "self-extracting.bin": b"#!/bin/sh\n\0\0" + zipped.getvalue(),
    }
    zstandard = pytest.importorskip("zstandard")
    return made | {"a.tar.zst": zstandard.compress(tar.getvalue())}


def test_an_archive_is_kept_whole_or_has_no_copy(tmp_path: Path) -> None:
    for name, data in archives(b"nothing in here\n" * 1000).items():
        assert copied(tmp_path, data, name=name) == (RedactionResult(files=1, bytes=len(data)), data), name
    for name, data in archives(b"x" * 70_000 + VALUE.encode().hex().encode() + b"y" * 1000).items():
        result, _ = copied(tmp_path, data, name=name)
        ((shown, reason),) = result.refused.items()
        assert shown == name
        assert "holds a known value (hex, " in reason, name
        assert "canary" not in reason


def test_a_value_in_the_name_of_a_member_or_in_a_link_is_found(tmp_path: Path) -> None:
    for info in (tarfile.TarInfo(f"a/{VALUE}.txt"), tarfile.TarInfo("link")):
        if info.name == "link":
            info.type, info.linkname = tarfile.SYMTYPE, f"/x/{VALUE}"
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w:gz") as archive:
            archive.addfile(info)
        result, _ = copied(tmp_path, file.getvalue(), name="a.tgz")
        assert "a known value" in result.refused["a.tgz"]
        assert VALUE not in result.refused["a.tgz"]


def test_what_cannot_be_looked_into_has_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encrypted = bytearray(archives(b"x")["stored.zip"])
    for place in (6, encrypted.rindex(b"PK\x01\x02") + 8):
        encrypted[place] |= 1
    for data, why in (
        (gzip.compress(b"x" * 1000)[:-12], "damaged gz"),
        (b"7z\xbc\xaf\x27\x1c" + bytes(50), "a 7z file"),
        (b"Rar!\x1a\x07\x00" + bytes(50), "a rar file"),
        (bytes(encrypted), "member a/b.txt, encrypted"),
    ):
        assert why in copied(tmp_path, data, name="a")[0].refused["a"]
    nested = b"x"
    for _ in range(7):
        nested = gzip.compress(nested)
    assert "archives in one another" in copied(tmp_path, nested, name="a")[0].refused["a"]
    monkeypatch.setattr("agentix.redaction.containers.ROOM", 1 << 20)
    bomb = gzip.compress(bytes(200 << 20))
    assert "expands to too much" in copied(tmp_path, bomb, name="a")[0].refused["a"]


def test_a_binary_file_is_kept_whole_or_has_no_copy(tmp_path: Path) -> None:
    plain = bytes(range(256)) * 10 + b" 8.8.8.8 sk-0123456789abcdef0123 "
    assert copied(tmp_path, plain, name="result.bin") == (RedactionResult(files=1, bytes=len(plain)), plain)
    for form in (VALUE.encode(), VALUE.encode("utf-16-le"), VALUE.encode().hex().encode()):
        result, _ = copied(tmp_path, b"\x7fELF\0" + plain + form, name="a.so")
        assert result.refused["a.so"].startswith("no text, and it holds a known value (")
    late = b"a text\n" * 400_000 + b"\0" + VALUE.encode()
    assert "no text" in copied(tmp_path, late)[0].refused["a.log"]


def test_a_link_a_pipe_and_a_directory_have_no_copy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(VALUE)
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    for name, what in (("link", "link"), ("pipe", "pipe"), (".", "directory")):
        assert set(REDACTOR.file(tmp_path / name, tmp_path / "copy").left_out.values()) == {what}
    assert not (tmp_path / "copy").exists()


def test_a_large_log_takes_little_memory(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from agentix.redaction import Redactor, Secrets
source, target = map(Path, sys.argv[1:])
with source.open("wb") as file:
    for number in range(64):
        file.write(b'{"n": %d, "s": "canary-0123456789 8.8.8.8"}\\n' % number + b"a line of a log\\n" * 65000)
used = lambda: int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
before = used()
result = Redactor(Secrets(["canary-0123456789"])).file(source, target)
assert result.counts == {"known_value": 64}, result
print((used() - before) // 1024)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a.log"), str(tmp_path / "copy")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 40
