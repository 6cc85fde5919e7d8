"""The last look finds a known value wherever it is about to leave, and never shows it."""

from __future__ import annotations

import base64
import gzip
import json
import tarfile
from pathlib import Path

import pytest

from agentix.redaction import Finding, Redactor, Secrets, scan

VALUE = "canary-0123456789"
SECRETS = Secrets([VALUE])


def test_a_clean_tree_has_no_findings(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("nothing")
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"nothing"))
    assert scan(tmp_path, SECRETS) == []
    assert scan(tmp_path / "a", SECRETS) == []
    (tmp_path / "broken.gz").write_bytes(b"\x1f\x8b\x08\0")
    assert scan(tmp_path, Secrets()) == []


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("plain", VALUE),
        ("plain", VALUE[:5] + "\n" + VALUE[5:]),
        ("hex", VALUE.encode().hex()),
        ("base64", base64.b64encode(b"x" + VALUE.encode()).decode()),
    ],
)
def test_a_value_is_found_in_any_form(tmp_path: Path, form: str, text: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "log").write_text("." * 3_000_000 + text + "." * 100)
    ((found),) = scan(tmp_path, SECRETS)
    assert (found.path, found.form) == ("sub/log", form)
    assert found.where in {"byte 3000000", "byte 3000002"}
    (alone,) = scan(tmp_path / "sub" / "log", SECRETS)
    assert (alone.path, alone.where) == (".", found.where)


def test_names_links_and_archives_are_looked_at_and_no_value_is_shown(tmp_path: Path) -> None:
    (tmp_path / f"d-{VALUE}").mkdir()
    (tmp_path / f"d-{VALUE}" / "link").symlink_to(f"/x/{VALUE}")
    (tmp_path / "log.gz").write_bytes(gzip.compress(VALUE.encode()))
    (tmp_path / "wide.txt").write_text("\ufeff" + VALUE.encode().hex(), encoding="utf-16-le")
    (tmp_path / "broken.gz").write_bytes(gzip.compress(b"x" * 99)[:20])
    found = scan(tmp_path, SECRETS)
    assert sorted((one.path, one.form, one.where) for one in found)[1:] == [
        ("d-***", "plain", "name"),
        ("d-***/link", "plain", "link"),
        ("log.gz", "plain", "byte 0"),
        ("wide.txt", "hex", "byte 3"),
    ]
    assert any(one.path == "broken.gz" and one.form == "unreadable" for one in found)
    assert VALUE not in json.dumps([str(one) for one in found]) + repr(found)


def test_a_finding_reads_well() -> None:
    assert str(Finding(path="a/b", form="hex", where="byte 3")) == "a/b: hex (byte 3)"


class Enough(Exception):
    pass


@pytest.mark.parametrize("name", ["text", "binary", "packed.gz", "packed.tar"])
def test_the_work_on_one_large_file_can_be_ended(tmp_path: Path, name: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    text = b"line of a log\n" * 600_000
    if name == "packed.tar":
        (tmp_path / "log").write_bytes(text)
        with tarfile.open(source / name, "w") as archive:
            archive.add(tmp_path / "log", "log")
    else:
        data = {"text": text, "binary": b"\0" + text, "packed.gz": gzip.compress(text)}[name]
        (source / name).write_bytes(data)
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise Enough

    with pytest.raises(Enough):
        scan(source, SECRETS, check=check)
    calls = 0
    with pytest.raises(Enough):
        Redactor(SECRETS).tree(source, tmp_path / "copy", check=check)
    assert [path for path in (tmp_path / "copy").rglob("*") if path.is_file()] == []
