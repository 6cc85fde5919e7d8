from __future__ import annotations

import sys

import pytest

from agentix.errors import AgentixError
from agentix.records import Record, UsageRecord, load_run


@pytest.fixture
def run(tmp_path):
    records = [
        Record(trial_id="a", case="a", reward=1.0, usage=UsageRecord(output=3), phases={"agent": 1.5}),
        Record(trial_id="b", case="b", reward=0.0),
    ]
    (tmp_path / "results.jsonl").write_bytes(b"".join(record.to_line() for record in records))
    return load_run(tmp_path)


def test_without_pandas_the_error_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(AgentixError, match=r"core\[pandas\]"):
        run.to_dataframe()


def test_a_table_has_a_column_for_every_key_and_unknown_is_not_zero(run):
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = run.to_dataframe()
    assert list(frame["reward"]) == [1.0, 0.0]
    assert frame["usage.output"].isna().tolist() == [False, True]
    assert frame["phases.agent"][0] == 1.5
