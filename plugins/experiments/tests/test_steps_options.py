"""Options of agents, providers and datasets in the file are what they are there: a quoted number is text."""

from __future__ import annotations

import pytest

from agentix.plugins.experiments.documents import ExperimentError

PLUGINS = """
from pathlib import Path
from pydantic import BaseModel, ConfigDict
from agentix.api import AgentResult, BaseProvider


class Config(BaseModel):
    model_config = ConfigDict(extra="forbid")
    path: Path | None = None
    count: int = 1
    ratio: float = 0.5
    loud: bool = False
    words: tuple[str, ...] = ()
    title: str | None = None
    deep: dict[str, int] = {}


class Agent:
    Config = Config

    def __init__(self, config):
        self.config = config
        (Path(__file__).parent / "seen.txt").write_text(repr(config))

    async def solve(self, sandbox, instance, *, model):
        return AgentResult()


class Dataset:
    Config = Config

    def __init__(self, config):
        self.config = config

    def instances(self):
        return [{"instance_id": "one"}]

    def image(self, instance):
        return "none"

    async def setup(self, sandbox, instance):
        return True

    async def score(self, sandbox, instance, patch):
        return {"reward": 1.0}


class Provider(BaseProvider):
    Config = Config
    name = "mine"
    capabilities = frozenset()

    def __init__(self, config):
        self.config = config

    async def create(self, config, runtime):
        raise NotImplementedError

    async def dial(self, sandbox_id):
        raise NotImplementedError

    async def delete(self, sandbox_id):
        return None

    async def list(self, labels):
        return []
"""
WRONG = [
    ('count: "2"', "count", 'has to be a whole number, not the text "2"'),
    ("count: 2.0", "count", "has to be a whole number, not 2.0"),
    ('ratio: "0.6"', "ratio", 'has to be a number, not the text "0.6"'),
    ("loud: yes", "loud", 'has to be true or false, not the text "yes"'),
    ("loud: 1", "loud", "has to be true or false, not 1"),
    ('words: "a,b"', "words", 'has to be a list, not the text "a,b"'),
    ("words: [a, 3]", "words.1", "has to be text, not 3"),
    ("title: 7", "title", "has to be text, not 7"),
    ('deep: {x: "1"}', "deep.x", 'has to be a whole number, not the text "1"'),
]


@pytest.fixture
def plugins(lab):
    (lab.root / "plugins.py").write_text(PLUGINS)
    return lab


def problems(lab, text: str, **asked) -> list[tuple[int | None, str, str]]:
    file = lab.file(text)
    with pytest.raises(ExperimentError) as caught:
        lab.run(file, executor=None, dry_run=True, **asked)
    return [(found.line, found.path, found.message) for found in caught.value.problems]


@pytest.mark.parametrize(("option", "path", "said"), WRONG)
def test_options_of_agents_are_not_read_as_something_else(plugins, option: str, path: str, said: str) -> None:
    agent = f'matrix:\n  agents:\n  - name: "./plugins.py:Agent"\n    options:\n      {option}\n'
    ((line, where, message),) = problems(plugins, agent + "provider: local\n")
    assert (where, message) == (f"matrix.agents[0].options.{path}", said)
    assert line == 9


@pytest.mark.parametrize(("option", "path", "said"), WRONG)
def test_options_of_providers_are_not_read_as_something_else(plugins, option: str, path: str, said: str) -> None:
    head = 'name: "./plugins.py:Provider"'
    for text in (f"provider: {{{head}, {option}}}\n", f"provider:\n  {head}\n  options: {{{option}}}\n"):
        ((line, where, message),) = problems(plugins, "matrix: {agents: [oracle]}\n" + text)
        assert where.endswith(path) and where.startswith("provider.")
        assert (message, line is not None) == (said, True)


@pytest.mark.parametrize("source", ["source: dataset", "path: cases/a"])
@pytest.mark.parametrize(("option", "path", "said"), WRONG)
def test_options_of_datasets_are_not_read_as_something_else(
    plugins, source: str, option: str, path: str, said: str
) -> None:
    case = f'cases:\n- {{{source}, dataset: "./plugins.py:Dataset", options: {{{option}}}}}\n'
    ((line, where, message),) = problems(plugins, f"{case}matrix: {{agents: [oracle]}}\nprovider: local\n")
    assert (where, message, line) == (f"cases[0].options.{path}", said, 5)


def test_what_is_right_stays_as_it_is_in_the_file(plugins) -> None:
    right = 'count: 2, ratio: 1, loud: true, words: ["a,b"], title: "7", path: there, deep: {x: 1}'
    file = plugins.file(
        f'matrix: {{agents: [{{name: "./plugins.py:Agent", options: {{{right}}}}}]}}\nprovider: local\n'
    )
    assert plugins.run(file, executor=None, dry_run=True) == 0
    seen = (plugins.root / "seen.txt").read_text()
    assert "count=2, ratio=1.0, loud=True, words=('a,b',), title='7', deep={'x': 1}" in seen


def test_the_command_line_still_says_everything_in_text_beside_the_file(plugins) -> None:
    text = 'matrix: {agents: [oracle]}\nprovider: {name: "./plugins.py:Provider", ratio: 0.25, count: 1}\n'
    asked = {"provider_options": {"count": "3", "loud": "yes", "words": "a,b"}}
    assert plugins.run(plugins.file(text), executor=None, dry_run=True, **asked) == 0
    wrong = text.replace("0.25", '"0.25"')
    ((_, where, _),) = problems(plugins, wrong, **asked)
    assert where == "provider.ratio" or where == "provider.options.ratio"
