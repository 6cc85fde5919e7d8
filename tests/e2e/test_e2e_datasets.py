"""Datasets and agents from a file, and ids of every kind."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.real

DATASET = """
from agentix.api import SandboxConfig, apply_patch

IDS = {ids!r}

class Answers:
    def instances(self):
        for name in IDS:
            yield {{"instance_id": name, "instruction": "42"}}
    def image(self, instance):
        return ""
    def sandbox_config(self, instance):
        return SandboxConfig(workdir="/app")
    async def setup(self, sandbox, instance):
        await sandbox.write_file("/app/README", b"hello\\n")
        return {setup}
    async def score(self, sandbox, instance, patch):
        await self.setup(sandbox, instance)
        await apply_patch(sandbox, patch, "/app")
        done = await sandbox.exec("cat answer.txt")
        return {{"reward": float(done.stdout == b"42\\n")}}

dataset = Answers
"""

AGENT = """
async def agent(sandbox, instance, *, model):
    await sandbox.write_file("/app/answer.txt", b"42\\n")
"""


def files(shop: Any, ids: list[str], *, setup: str = "True") -> list[str]:
    (shop.path / "data.py").write_text(DATASET.format(ids=ids, setup=setup))
    (shop.path / "agent.py").write_text(AGENT)
    return ["--dataset", "./data.py", "--agent", "./agent.py"]


def test_ids_that_cannot_name_a_directory_stay_whole_in_the_results(shop: Any) -> None:
    ids = ["a/b", "..", "two words", "x" * 300, "emoji-🚀", "-rf", "Case", "case", "a__b.c+d"]
    done = shop.run(*files(shop, ids))
    assert done.code == 0, done.said
    assert sorted(record["case"] for record in done.records) == sorted(ids)
    assert [record["reward"] for record in done.records] == [1.0] * len(ids)
    trials = done.run_dir / "trials"
    assert len(list(trials.iterdir())) == len(ids)


def test_two_instances_with_one_id_are_refused(shop: Any) -> None:
    done = shop.run(*files(shop, ["same", "other", "same"]))
    assert done.code == 2
    assert "'same'" in done.err and not done.records


def test_a_set_up_that_says_no_is_no_failure_of_the_agent(shop: Any) -> None:
    done = shop.run(*files(shop, ["one"], setup="False"))
    assert done.code == 3
    assert done.records[0]["failure_code"] == "ENV_FAILED"


def test_a_reference_that_leads_nowhere_says_where_it_was_typed(shop: Any) -> None:
    shop.task("answer")
    for option, text in (("--agent", "orcale"), ("--provider", "lokal"), ("--agent", "./nowhere.py")):
        done = shop.run("--agent", "oracle", option, text)
        assert done.code == 2
        assert option in done.err and text.removeprefix("./") in done.err and "Traceback" not in done.said


def test_an_unknown_bundle_is_told_before_anything_runs(shop: Any) -> None:
    shop.task("answer")
    done = shop.run("--agent", "oracle", "--bundle", "eval:0.1.0")
    assert done.code == 2
    assert "there is no bundle eval:0.1.0" in done.err and "agentix build" in done.err
    assert not done.records


def test_a_pattern_without_a_match_runs_nothing(shop: Any) -> None:
    shop.task("answer")
    done = shop.run("--agent", "oracle", "--instance", "*answer", "--instance", "nosuch")
    assert done.code == 2
    assert "nosuch" in done.err and not done.records


def test_a_mean_below_the_wanted_one_exits_with_1(shop: Any) -> None:
    shop.task("answer")
    assert shop.run("--agent", "nop", "--fail-under", "0.5").code == 1
