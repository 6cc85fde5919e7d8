"""An executor that runs on one provider only, and whoever names another one."""

from __future__ import annotations

import pytest

from agentix.api import AgentixError, UsageError
from agentix.plugins.experiments.engine.parts import load_parts
from agentix.plugins.experiments.engine.request import RunRequest

STEP = "matrix: {agents: [oracle]}\npipeline: {per_trial: [{uses: local}]}\n"


@pytest.fixture(autouse=True)
def _local() -> None:
    pytest.importorskip("agentix.providers.local", reason="the provider local is not installed")


def parts(lab, text: str, **asked):
    return load_parts(RunRequest(file=lab.file(text), out=lab.root / "runs", **asked))


@pytest.mark.parametrize(("text", "asked"), [(STEP, {}), ("matrix: {agents: [oracle]}\n", {"executor": "local"})])
def test_another_provider_on_the_command_line_is_refused(lab, text: str, asked: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="--provider inline: local runs trials on the provider local only"):
        parts(lab, text, provider="inline", **asked)
    assert parts(lab, text, provider="local", **asked).provider_use.ref == "local"


def test_another_provider_in_the_file_is_an_error_of_the_file(lab) -> None:
    with pytest.raises(AgentixError) as caught:
        parts(lab, STEP + "provider: {name: inline}\n")
    told = "provider: the step local runs trials on the provider local only, and not on inline"
    assert told in str(caught.value) and "experiment.yaml:7" in str(caught.value)


def test_the_provider_of_the_file_is_told_to_be_left_aside_for_an_executor_of_the_command_line(lab) -> None:
    text = "matrix: {agents: [oracle]}\nprovider: inline\n"
    found = parts(lab, text, executor="local")
    assert found.provider_use.ref == "local"
    assert "provider: local (--executor) runs on local; what the file says of inline is not used" in found.notices
    found = parts(lab, text.replace("inline", "local"), executor="local")
    assert not any("not used" in notice for notice in found.notices)
