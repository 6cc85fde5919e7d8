"""Trials through `rollout`: any dataset, agent and provider."""

from __future__ import annotations

import json
import os

import pytest

from agentix.api import HostError
from agentix.cli.api import parse_retry

TOY = """
from pathlib import Path

from agentix.api import AgentResult, HostProcessProvider, VerifierError

HERE = Path(__file__).parent
PATCH = "diff --git a/x b/x\\nnew file mode 100644\\n--- /dev/null\\n+++ b/x\\n@@ -0,0 +1 @@\\n+1\\n"


class Provider(HostProcessProvider):
    name = "toy"

    async def check(self):
        with (HERE / "asked").open("a") as file:
            file.write("x")
        gone = HERE / "gone"
        times = int(gone.read_text()) if gone.exists() else 0
        if times:
            gone.write_text(str(times - 1))
        return ["the engine does not answer; start it"] if times else []


class Dataset:
    def instances(self):
        yield {"instance_id": "one", "instruction": "do"}
        yield {"instance_id": "two", "instruction": "do"}

    def image(self, instance):
        return ""

    async def setup(self, sandbox, instance):
        return True

    async def score(self, sandbox, instance, patch):
        if instance["instance_id"] == "one" and (HERE / "broken").exists():
            raise VerifierError("the scorer is broken")
        return {"reward": float(patch == PATCH)}


class Agent:
    version = "7"

    async def solve(self, sandbox, instance, *, model):
        with (HERE / "solved.txt").open("a") as file:
            file.write(f"{instance['instance_id']} {model}\\n")
        return AgentResult(patch=PATCH)
"""

FILE = """
kind: Experiment
name: toy
cases: [{{source: dataset, dataset: {root}/toy.py:Dataset}}]
matrix: {{agents: [{{name: "{root}/toy.py:Agent", id: toy}}]{more}}}
provider: {{name: "{root}/toy.py:Provider"}}
"""


@pytest.fixture
def toy(lab):
    """The lab with a dataset, an agent and a provider of its own."""
    (lab.root / "toy.py").write_text(TOY)

    def file(more: str = "", head: str = ""):
        path = lab.root / "toy.yaml"
        path.write_text(head + FILE.format(root=lab.root, more=more))
        return path

    lab.toy = file
    return lab


def solved(lab) -> list[str]:
    return (lab.root / "solved.txt").read_text().splitlines()


def test_any_dataset_agent_and_provider(toy) -> None:
    assert toy.run(toy.toy(), executor=None) == 0
    assert {name: record.reward for name, record in toy.records().items()} == {"one-toy-1": 1.0, "two-toy-1": 1.0}
    record = toy.records()["one-toy-1"]
    assert (record.case, record.agent, record.agent_version, record.case_sha256) == ("one", "toy", "7", None)
    assert (toy.path() / "trials/one-toy-1/patch.diff").exists()
    assert (toy.path() / "trials/one-toy-1/attempts/1").is_dir()
    assert toy.manifest()["provider"]["ref"].endswith("toy.py:Provider")


def assert_only_scored_again(toy) -> None:
    record = toy.records()["one-toy-1"]
    assert (record.reward, record.agent_version) == (1.0, "7")
    assert "only scored again: the answer is that of the running before" in record.notes
    assert sorted(solved(toy)) == ["one None", "two None"]


def test_what_failed_to_be_scored_is_only_scored_again(toy) -> None:
    (toy.root / "broken").touch()
    assert toy.run(toy.toy(), executor=None) == 3
    assert toy.records()["one-toy-1"].failure_code == "VERIFIER_ERROR"
    (toy.root / "broken").unlink()
    assert toy.run(toy.toy(), executor=None, retry=parse_retry(["infra"])) == 0
    assert_only_scored_again(toy)
    assert (toy.path() / "trials/one-toy-1/patch.diff").exists()


def test_what_a_dataset_with_its_own_flow_kept_is_only_scored_again(toy) -> None:
    (toy.root / "toy.py").write_text(
        TOY.replace(
            "    async def score(",
            """    answer = "state"

    async def drive(self, flow, instance):
        if flow.earlier is None:
            await flow.solve(await flow.setup())
        elif (HERE / "log").write_text(str(flow.earlier.data)) and flow.log_dir is None:
            raise ValueError("no directory")
        flow.keep({"what": instance["instance_id"]})
        return await flow.score(lambda: self.score(None, instance, PATCH))

    async def score(""",
        )
    )
    (toy.root / "broken").touch()
    assert toy.run(toy.toy(), executor=None) == 3
    # What was scored again and failed again is kept as well.
    assert toy.run(toy.toy(), executor=None, retry=parse_retry(["infra"])) == 3
    (toy.root / "broken").unlink()
    assert toy.run(toy.toy(), executor=None, retry=parse_retry(["infra"])) == 0
    assert_only_scored_again(toy)
    assert (toy.root / "log").read_text() == "{'what': 'one'}"


def test_an_edited_agent_is_another_measurement(toy) -> None:
    from agentix.api import RunChanged

    assert toy.run(toy.toy(), executor=None) == 0
    (toy.root / "toy.py").write_text(TOY.replace('version = "7"', 'version = "8"'))
    with pytest.raises(RunChanged, match="sha256"):
        toy.run(toy.toy(", trials: 2"), executor=None)


def test_a_missing_key_fails_the_trial_before_there_is_a_sandbox(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    head = "kind: LLMSpec\nname: opus\nmodel: m-1\napi_key_env: NO_SUCH_KEY\n---\n"
    file = toy.toy(", llm_specs: [opus]", head)
    assert toy.run(file, executor=None) == 3
    record = toy.records()["one-toy-opus-1"]
    assert (record.failure_code, record.failure_detail) == ("ENV_FAILED", "missing_key")
    assert "NO_SUCH_KEY" in (record.failure_message or "")
    assert not (toy.root / "solved.txt").exists()
    monkeypatch.setenv("NO_SUCH_KEY", "sk-canary-77")
    assert toy.run(file, executor=None, retry=parse_retry(["infra"])) == 0
    assert sorted(solved(toy)) == ["one m-1", "two m-1"]
    assert not [name for name, data in toy.bytes().items() if b"sk-canary-77" in data]


def test_an_agent_command_is_told_of_the_model_by_its_environment(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_KEY", "sk-canary-78")
    head = f"""kind: Commands
agent_mine:
  script: |
    printf '%s\\n' "$LLM_MODEL" "$LLM_BASE_URL" "$LLM_PROVIDER" "$LLM_API_KEY" "$LLM_PARAMETERS" > {toy.root}/told.txt
    tr '\\0' ' ' < /proc/$$/cmdline > {toy.root}/words.txt
---
kind: LLMSpec
name: opus
model: m-1
provider: anthropic
base_url: http://localhost:1
api_key_env: LAB_KEY
parameters: {{effort: high}}
---
"""
    file = toy.toy(", llm_specs: [opus]", head)
    file.write_text(file.read_text().replace(f"{toy.root}/toy.py:Agent", "mine"))
    assert toy.run(file, executor=None, cases=("one",)) == 0
    assert (toy.root / "told.txt").read_text().splitlines() == [
        "m-1", "http://localhost:1", "anthropic", "sk-canary-78", '{"effort": "high"}'
    ]  # fmt: skip
    assert "sk-canary-78" not in (toy.root / "words.txt").read_text()
    assert not [name for name, data in toy.bytes().items() if b"sk-canary-78" in data]
    assert toy.manifest()["commands"]["agent_mine"]["form"] == "script"
    assert os.environ["LAB_KEY"] not in json.dumps(toy.manifest())


AHEAD = """
import json
from contextlib import asynccontextmanager

import anyio

from toy import HERE, Dataset, Provider


class Counting(Provider):
    prepares_ahead = True
    made = []

    @asynccontextmanager
    async def session(self, config):
        self.made.append(config.labels["agentix.trial"])
        (HERE / "made.json").write_text(json.dumps(self.made))
        async with super().session(config) as sandbox:
            yield sandbox


class Patient(Dataset):
    async def score(self, sandbox, instance, patch):
        if instance["instance_id"] == "one":
            with anyio.fail_after(60):
                while "two-toy-1" not in (HERE / "made.json").read_text():
                    await anyio.sleep(0.001)
        return await super().score(sandbox, instance, patch)
"""


@pytest.mark.parametrize("said", ["", "prepare_ahead: 1"])
def test_the_next_trials_sandbox_is_made_while_one_runs(toy, monkeypatch, said) -> None:
    (toy.root / "ahead.py").write_text(AHEAD)
    monkeypatch.syspath_prepend(toy.root)
    text = FILE.format(root=toy.root, more="").replace("toy.py:Dataset", "ahead.py:Patient")
    file = toy.file(text.replace("toy.py:Provider", "ahead.py:Counting") + f"{said}\n")
    assert toy.run(file, executor="rollout") == 0
    assert {record.reward for record in toy.records().values()} == {1.0}
    # Each has one for the agent and one to score in, and none was made in vain.
    made = json.loads((toy.root / "made.json").read_text())
    assert sorted(made) == ["one-toy-1", "one-toy-1", "two-toy-1", "two-toy-1"]


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_an_engine_that_is_away_for_a_moment_does_not_end_a_run(
    toy, monkeypatch: pytest.MonkeyPatch, gone: int
) -> None:
    monkeypatch.setattr("agentix.cli.preflight.AGAIN_S", (0.0, 0.0))
    (toy.root / "gone").write_text(str(gone))
    assert toy.run(toy.toy(), executor=None) == 0
    assert (toy.root / "asked").read_text() == "x" * (gone + 1)
    # A run that is finished needs no engine.
    (toy.root / "gone").write_text("9")
    assert toy.run(toy.toy(), executor=None) == 0
    assert (toy.root / "asked").read_text() == "x" * (gone + 1)


def test_a_run_does_not_begin_where_no_sandbox_can_be_made(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentix.cli.preflight.AGAIN_S", (0.0, 0.0))
    (toy.root / "gone").write_text("3")
    with pytest.raises(HostError, match="cannot make sandboxes here: the engine does not answer; start it"):
        toy.run(toy.toy(), executor=None)
    assert not toy.path().exists()
    assert toy.run(toy.toy(), executor=None) == 0
