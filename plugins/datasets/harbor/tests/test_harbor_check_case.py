from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agentix.api import Case, DatasetError, Scope, StepContext, load
from agentix.plugins.datasets.harbor.check_case import CheckCase, CheckCaseInputs
from agentix.testing import StepCase, StepContract

pytestmark = pytest.mark.anyio

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples" / "tasks"


@pytest.fixture
def check(tmp_path):
    async def run(directory: Path | None, **given):
        case = Case(name="c", label="c", source="local", dataset="harbor", instance={}, directory=directory)
        ctx = StepContext(scope=Scope.PER_CASE, run_id="r", run_dir=tmp_path, work_dir=tmp_path, case=case)
        return await CheckCase().run(ctx, CheckCaseInputs(**given))

    return run


@pytest.fixture
def task(tmp_path) -> Path:
    return Path(shutil.copytree(EXAMPLES / "write-greeting", tmp_path / "task"))


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir()))
async def test_the_examples_are_whole(check, name):
    outcome = await check(EXAMPLES / name)
    assert outcome.ok, outcome.message


async def test_everything_that_is_missing_is_told_at_once(check, task):
    (task / "instruction.md").unlink()
    (task / "tests" / "test.sh").unlink()
    shutil.rmtree(task / "environment")
    (task / "environment").mkdir()
    outcome = await check(task, require=["environment", "solution/solve.sh", "LICENSE"])
    assert not outcome.ok
    for said in ("environment is empty", "there is no LICENSE", "instruction.md: there", "tests/test.sh: there"):
        assert said in outcome.message
    assert str(task) not in outcome.message


async def test_a_directory_that_is_no_task_is_rejected_once(check, tmp_path):
    outcome = await check(tmp_path)
    assert outcome.message == "there is no task.toml; there is no environment"


async def test_a_malformed_file_is_told_with_its_place(check, task):
    (task / "task.toml").write_text("[agent\n")
    outcome = await check(task)
    assert not outcome.ok and outcome.message.startswith("task.toml:1:")


async def test_fields_have_to_have_a_value(check, task):
    (task / "task.toml").write_text('version = "1.0"\n[metadata]\ndifficulty = "easy"\nauthor = ""\nscore = 0\n')
    good = await check(task, require_fields=["metadata.difficulty", "metadata.score"])
    assert good.ok, good.message
    bad = await check(task, require_fields=["metadata.author", "metadata.difficulty.level", "agent.timeout_sec"])
    assert bad.outputs["problems"] == [
        f"task.toml has no {key}" for key in ("metadata.author", "metadata.difficulty.level", "agent.timeout_sec")
    ]


async def test_an_unknown_key_is_a_remark(check, task):
    (task / "task.toml").write_text('version = "1.0"\n[agent]\ntimeout_secs = 5\n')
    outcome = await check(task)
    assert (
        outcome.ok and outcome.message == "unknown key agent.timeout_secs in task.toml, did you mean agent.timeout_sec?"
    )


async def test_a_case_that_is_no_directory_cannot_be_checked(check):
    with pytest.raises(DatasetError, match="this case is none"):
        await check(None)


@pytest.mark.parametrize(
    "given", [{"require": ["/etc"]}, {"require": ["../x"]}, {"require_fields": ["a..b"]}, {"x": 1}]
)
def test_inputs_that_make_no_sense_are_refused(given):
    with pytest.raises(ValueError):
        CheckCaseInputs(**given)


class TestContract(StepContract):
    def plugin(self):
        return load("step", "check_case")

    def case(self) -> StepCase:
        def prepare(directory: Path) -> None:
            shutil.copytree(EXAMPLES / "keep-stock", directory, dirs_exist_ok=True)

        return StepCase(inputs={"require_fields": ["steps"]}, prepare_case=prepare, ok=True)
