from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.errors import RecordsDamaged
from agentix.records import Record
from agentix.records.scan import Scan


def line(number: int, **values) -> bytes:
    return Record(trial_id=f"t{number}", case=f"c{number}", reward=1.0, **values).to_line()


def scan(tmp_path, data: bytes) -> tuple[list[str], Scan]:
    file = tmp_path / "results.jsonl"
    file.write_bytes(data)
    found = Scan(file)
    return [record.trial_id for record in found], found


GOOD = line(1) + line(2) + line(3)


def test_a_missing_file_has_no_records(tmp_path):
    assert list(Scan(tmp_path / "none")) == []


@pytest.mark.parametrize(
    "tail",
    [
        b'{"schema_version":1,"trial_id":"t4","rew',
        line(4, notes=("é",)).split(b"\xa9")[0],
        b"\0" * 4096,
        line(4)[:20] + b"\0" * 100,
        b"\0" * 100 + b"\n",
    ],
    ids=["cut", "inside a character", "nul block", "cut then nul", "nul line"],
)
def test_a_torn_end_is_told_apart(tmp_path, tail):
    ids, found = scan(tmp_path, GOOD + tail)
    assert ids == ["t1", "t2", "t3"]
    assert (found.end, found.torn) == (len(GOOD), tail)


def test_the_trial_of_a_torn_line_is_read_where_it_is_legible(tmp_path):
    assert scan(tmp_path, GOOD + b'{"schema_version":1,"trial_id":"t4","ca')[1].torn_trial_id == "t4"
    assert scan(tmp_path, GOOD + b'{"schema_version":1,"tria')[1].torn_trial_id is None


def test_a_good_last_line_without_newline_counts(tmp_path):
    ids, found = scan(tmp_path, GOOD[:-1])
    assert ids == ["t1", "t2", "t3"]
    assert found.unterminated
    assert not found.torn


@pytest.mark.parametrize(
    "damage",
    [
        b'{"trial_id":"t9","rew\n',
        b"\0\0\0\n",
        b"\xff\xfe\n",
        b"[]\n",
        line(9).replace(b'"reward":1.0', b'"reward":NaN'),
    ],
    ids=["torn", "nul", "bytes", "list", "nan"],
)
def test_damage_in_the_middle_names_file_and_line_and_leaves_the_file(tmp_path, damage):
    data = line(1) + damage + line(2)
    with pytest.raises(RecordsDamaged, match=r"results\.jsonl:2: "):
        scan(tmp_path, data)
    assert (tmp_path / "results.jsonl").read_bytes() == data


def test_two_lines_of_one_trial_are_damage(tmp_path):
    with pytest.raises(RecordsDamaged, match=r":3: trial t1 .* line 1"):
        scan(tmp_path, line(1) + line(2) + line(1))


@given(st.integers(min_value=0))
def test_a_file_cut_anywhere_keeps_every_whole_record(tmp_path_factory, cut):
    data = line(1) + line(2, notes=("größe",)) + line(3)
    cut %= len(data) + 1
    ids, found = scan(tmp_path_factory.mktemp("cut"), data[:cut])
    whole = data[:cut].count(b"\n") + (cut < len(data) and data[cut : cut + 1] == b"\n")
    assert ids == [f"t{number}" for number in range(1, whole + 1)]
    assert data[: found.end] + found.torn == data[:cut]
