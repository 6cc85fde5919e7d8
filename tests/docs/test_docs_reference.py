"""The reference pages name everything that there is, and nothing that there is not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
from pydantic import BaseModel

from agentix.cli.app import COMMANDS
from agentix.cli.rollout import app
from agentix.errors import TrialError
from agentix.models import Ended, FailureCode
from agentix.plugins.datasets.harbor import HarborDataset
from agentix.plugins.datasets.harbor.schema import TaskFile
from agentix.providers.docker import DockerProvider
from agentix.providers.local import LocalProvider
from agentix.records import Record

DOCS = Path(__file__).resolve().parents[2] / "docs/reference"


def words(page: str) -> set[str]:
    """Everything in backquotes, taken apart at spaces and commas."""
    text = re.sub(r"^```.*?^```", "", (DOCS / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    return {word for quoted in re.findall(r"`([^`]+)`", text) for word in re.split(r"[\s,\[\]=]+", quoted)}


def tables(page: str) -> str:
    return "\n".join(line for line in (DOCS / page).read_text().splitlines() if line.startswith("|"))


def options() -> set[str]:
    command: Any = typer.main.get_command(app)
    return {name for parameter in command.params for name in parameter.opts} | {"--help"}


def test_the_page_of_agentix_run_names_its_options_and_no_others() -> None:
    named = {word for word in words("agentix-run.md") if re.fullmatch(r"--?[a-z][a-z-]*", word)}
    assert named == options()


def test_the_page_of_agentix_run_names_every_variable() -> None:
    command: Any = typer.main.get_command(app)
    variables = {parameter.envvar for parameter in command.params if parameter.envvar}
    named = {word for word in words("agentix-run.md") if word.startswith("AGENTIX_")}
    assert named == variables | {"AGENTIX_CACHE_DIR"}


def test_the_page_of_agentix_run_names_every_command() -> None:
    text = (DOCS / "agentix-run.md").read_text()
    assert [name for name in COMMANDS if f"`agentix {name}" not in text] == []


def test_the_page_of_codes_names_every_code_and_tells_who_is_retried_and_counted() -> None:
    rows = {
        row[0].strip(" `"): row
        for row in (line.strip("|").split("|") for line in tables("failure-codes.md").splitlines())
    }
    for code in FailureCode:
        if code.value in rows:
            assert (rows[code.value][3].strip() == "yes") == code.is_retried
            assert (rows[code.value][4].strip() == "yes") == code.is_agents
        else:
            assert f"`{code.value}`" in (DOCS / "failure-codes.md").read_text()


def test_every_error_of_a_trial_has_a_code_that_exists() -> None:
    todo = [TrialError]
    while todo:
        error = todo.pop()
        assert FailureCode(error.code)
        todo += error.__subclasses__()


def test_the_page_of_results_names_every_key_of_a_record() -> None:
    named = words("results.md")
    assert [name for name in Record.model_fields if name not in named] == []
    assert [ending for ending in Ended.__args__ if ending not in named] == []  # type: ignore[attr-defined]


def keys(model: type[BaseModel]) -> set[str]:
    found = set(model.model_fields)
    for field in model.model_fields.values():
        for part in [field.annotation, *getattr(field.annotation, "__args__", ())]:
            if isinstance(part, type) and issubclass(part, BaseModel) and part is not model:
                found |= keys(part)
    return found


def test_the_page_of_harbor_names_every_key_of_the_tables() -> None:
    inner = {
        "command",
        "interval_sec",
        "start_period_sec",
        "start_interval_sec",
        "retries",
        "email",
        "transport",
        "url",
    }
    inner |= {
        "args",
        "headers",
        "destination",
        "exclude",
        "steps",
        "task",
        "agent",
        "verifier",
        "solution",
        "environment",
    }
    named = words("harbor-tasks.md")
    assert sorted(keys(TaskFile) - inner - named) == []


@pytest.mark.parametrize(
    ("plugin", "page"),
    [(HarborDataset, "harbor-tasks.md"), (DockerProvider, "docker-provider.md"), (LocalProvider, "local-provider.md")],
    ids=["harbor", "docker", "local"],
)
def test_the_page_of_a_plugin_names_its_options(plugin: Any, page: str) -> None:
    named = words(page)
    assert [name for name in plugin.Config.model_fields if name not in named] == []
