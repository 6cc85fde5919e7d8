"""A key is in nothing that is written, in whatever form it comes."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from agentix.api import Failure, FailureCode, Rollout
from agentix.redaction import Secrets

KEY = 'sk-CANARY/"+7é'


@given(st.binary(max_size=20), st.binary(max_size=20), st.text(min_size=8, max_size=40))
def test_every_common_form_is_found_wherever_it_stands(before: bytes, after: bytes, key: str) -> None:
    try:
        raw = key.encode()
    except UnicodeEncodeError:
        return
    masks = Secrets([key])
    for form in (raw, raw.hex().encode(), json.dumps(key).encode(), quote(key, safe="").encode()):
        assert form.strip(b'"') not in masks.data(before + form + after) or form.strip(b'"') in before + after
    coded = base64.b64encode(before + raw + after)
    assert len(masks.data(coded)) < len(coded)


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
