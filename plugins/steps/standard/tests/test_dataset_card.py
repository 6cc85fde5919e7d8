from __future__ import annotations

import json

import anyio
import pytest
from dataset_runs import DROPPED, HOSTILE, trial
from huggingface_hub import DatasetCard

from agentix.plugins.steps.standard.dataset.columns import COLUMNS
from agentix.records.experiment import CaseUse
from agentix.records.manifest import PluginUse

pytestmark = pytest.mark.anyio


async def test_the_front_matter_is_what_the_hub_reads(make_run, written):
    make_run()
    data = DatasetCard.load(str(await written(title=HOSTILE, license="Apache-2.0") / "README.md")).data
    assert data.license == "apache-2.0"
    assert data.pretty_name.startswith("=cmd|' /C calc'!A0 <script>") and "\n" not in data.pretty_name
    assert data.size_categories == ["n<1K"]
    assert data.configs[0]["data_files"] == [{"split": "train", "path": "data/trials.jsonl"}]
    assert [feature["name"] for feature in data.dataset_info["features"]] == list(COLUMNS)


async def test_a_licence_that_the_hub_has_no_word_for_keeps_its_name(make_run, written):
    make_run()
    data = DatasetCard.load(str(await written(license="GPL-3.0-or-later") / "README.md")).data
    assert (data.license, data.license_name) == ("other", "gpl-3.0-or-later")
    data = DatasetCard.load(str(await written() / "README.md")).data
    assert data.license is None
    assert "No licence was declared" in (await anyio.Path(await written() / "README.md").read_text())


async def test_the_card_says_where_the_numbers_come_from(make_run, written):
    make_run()
    text = (await written() / "README.md").read_text()
    assert f"| cases/a | {'a' * 64} | https://example.org/cases.git {'c' * 40} cases/a | oracle" in text
    assert "want &gt;= 1.00 -&gt; PASS" in text
    assert "| executor | rollout (plugin) |" in text and "| provider | docker |" in text
    assert "| agent claude with opus | claude-code, version 2.1, 7 trials of each case |" in text
    assert f"| command harbor | uses, sha256 {'c' * 64} |" in text
    assert '| model opus | anthropic opus-4 {"temperature": 1} |' in text
    assert "| known\\_value | 12 |" in text
    assert "| version of agentix-rollouts-core | 0.1.0 |" in text
    assert "| file | spring.yaml |" in text and "somebody" not in text
    assert "8 trials: 2 resolved, 2 unresolved, 1 agent failures, 1 infrastructure failures, 2 unrun" in text
    assert "| failed by the agent: AGENT\\_TIMEOUT | 1 |" in text
    assert "- 1 were kept from publication" in text
    assert "- 1 have no row" in text and "- 2 were planned" in text


async def test_the_numbers_count_what_was_dropped(make_run, written):
    make_run([trial(1, 1.0)], planned=2)
    text = (await written(dropped=(DROPPED,)) / "README.md").read_text()
    assert "mean reward 0.500 over 2" in text
    assert "also of those that were kept from publication" in text


async def test_a_run_without_an_admission_check_says_so(make_run, written):
    make_run(steps=(), gate=())
    text = (await written() / "README.md").read_text()
    assert "No admission check was part of this run" in text and "| no verdict |" in text


async def test_names_from_outside_stay_text(make_run, written):
    make_run()
    text = (await written() / "README.md").read_text()
    body = text.split("\n---\n", 1)[1]
    assert "<script>" not in body and "[x](" not in body and "**b**" not in body and "\u202e" not in text
    assert "\n--- \\u202egnp" not in text


async def test_all_cases_are_in_a_file_of_their_own(make_run, written):
    case = CaseUse(name="x", label="x", source="local", dataset=PluginUse(ref="harbor"), sha256="d" * 64)
    cases = tuple(case.model_copy(update={"label": f"cases/{number}"}) for number in range(250))
    make_run(cases=cases)
    dataset = await written()
    assert "somebody" not in (dataset / "cases.jsonl").read_text()
    found = [json.loads(line) for line in (dataset / "cases.jsonl").read_text().splitlines()]
    assert [case["label"] for case in found] == [f"cases/{number}" for number in range(250)]
    assert "… and 50 more in `cases.jsonl`" in (dataset / "README.md").read_text()
