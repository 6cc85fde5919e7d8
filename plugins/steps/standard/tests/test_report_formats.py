from __future__ import annotations

import csv
import html.parser
import json

import anyio
import pytest
from pydantic import ValidationError

from agentix.api import FailureCode, Record, Scope
from agentix.plugins.steps.standard.report import Report, ReportInputs
from agentix.records import StepFailure, UsageRecord
from agentix.records.experiment import AgentRow, StepEnd
from agentix.records.manifest import PluginUse

pytestmark = pytest.mark.anyio

HOSTILE = "=cmd|' /C calc'!A0 <script>alert(1)</script> [x](javascript:alert(1)) **b** `c` | d\n# e \u202egnp.exe"


def trial(number: int, reward: float | None, *, agent="claude", case="cases/a", **values) -> Record:
    return Record(trial_id=f"t{number}", case=case, agent=agent, reward=reward, seconds=2.0, **values)


@pytest.fixture
def run_dir(write_run):
    records = [
        trial(1, 1.0, llm_spec="opus", usage=UsageRecord(input=100, output=20, cost_usd=0.5)),
        trial(2, 0.5, llm_spec="opus"),
        trial(3, None, llm_spec="opus", failure_code=FailureCode.AGENT_TIMEOUT, ended="timeout"),
        trial(4, None, llm_spec="opus", failure_code=FailureCode.HOST_ERROR, failure_message="the disk is full"),
        trial(
            5,
            1.0,
            agent="oracle",
            step_failures=(StepFailure(step="archive", code=FailureCode.STEP_FAILED, message="no"),),
        ),
    ]
    matrix = (
        AgentRow(agent="claude", llm_spec="opus", use=PluginUse(ref="claude"), trials=5),
        AgentRow(agent="oracle", use=PluginUse(ref="oracle"), trials=1),
    )
    ended = (StepEnd(step="ship", fingerprint="f", ok=False, message="the bucket is gone"),)
    return write_run(records, matrix=matrix, planned=6, gate=("case cases/a: oracle [1 1] -> PASS",), ended=ended)


async def written(context, **given) -> str:
    incomplete = given.pop("incomplete", None)
    inputs = ReportInputs(**given)
    outcome = await Report().run(context(Scope.PER_EXPERIMENT, incomplete=incomplete), inputs)
    assert outcome.ok
    return (await anyio.Path(outcome.outputs["path"]).read_bytes()).decode()


async def test_without_inputs_it_is_markdown_in_report_md(run_dir, context):
    text = await written(context)
    assert (run_dir / "report.md").read_text() == text
    assert "did not complete" not in text
    assert "| claude | opus | 2/5 | 0.500 (0.375) |" in text
    assert "AGENT\\_TIMEOUT=1, HOST\\_ERROR=1" in text
    assert "| t4 | HOST\\_ERROR | the disk is full |" in text
    assert "|  | ship | the bucket is gone |" in text
    assert "case cases/a: oracle \\[1 1\\] -&gt; PASS" in text
    assert f"| cases/c | {'b' * 12} | local |" in text and "| file | spring.yaml |" in text
    assert "somebody" not in text


async def test_a_run_that_did_not_complete_says_so_and_keeps_its_numbers(run_dir, context):
    why = "ship: exit status 3: the bucket is gone"
    text = await written(context, incomplete=why)
    assert f"**This run did not complete.** {why}\n" in text
    assert "| claude | opus | 2/5 |" in text
    assert json.loads(await written(context, incomplete=why, format="json"))["incomplete"] == why
    assert why in await written(context, incomplete=why, format="html")
    table = await written(context, incomplete=why, format="csv")
    assert "did not complete" not in table and len(list(csv.reader(table.splitlines()))) == 3


async def test_a_run_that_died_before_its_first_file_is_reported_too(context, tmp_path):
    (tmp_path / "nightly").mkdir()
    text = await written(context, incomplete="the gate rejected cases/a")
    assert "**This run did not complete.** the gate rejected cases/a" in text


async def test_json_has_the_numbers_of_every_row(run_dir, context):
    data = json.loads(await written(context, dest="out.json", pass_at=0.5))
    claude, oracle = data["rows"]
    assert (claude["mean_reward"], claude["mean_reward_infra_zero"], claude["denominator"]) == (0.5, 0.375, 3)
    assert claude["pass_at"] == {"reward": 0.5, "passed": 2, "of": 3}
    assert claude["planned"] == 5 and claude["unrun"] == 1 and claude["coverage"] == 0.4
    assert claude["failures"] == {"AGENT_TIMEOUT": 1, "HOST_ERROR": 1}
    assert [k["k"] for k in claude["pass_k"]] == [1, 2, 3]
    assert oracle["agent"] == "oracle" and oracle["pass_k"] == []
    assert data["incomplete"] is None and data["total"]["unrun"] == 1


async def test_the_format_follows_the_suffix_of_dest_unless_it_is_given(run_dir, context):
    assert (await written(context, dest="a/b.html")).startswith("<!doctype html>")
    assert (await written(context, dest="summary.txt")).startswith("# ")
    assert json.loads(await written(context, dest="summary.md", format="json"))
    assert (run_dir / "a" / "b.html").is_file()


class Page(html.parser.HTMLParser):
    """Everything that a browser would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag in ("script", "link", "img", "iframe", "object", "form", "base"):
            self.bad.append(tag)
        self.bad += [name for name, value in attrs if name in ("src", "href") or name.startswith("on")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


async def test_hostile_names_stay_text_in_every_format(write_run, context):
    record = Record(
        trial_id="t",
        case=HOSTILE,
        agent=HOSTILE,
        failure_code=FailureCode.ENV_FAILED,
        failure_message=HOSTILE,
        reward=None,
    )
    matrix = (AgentRow(agent=HOSTILE, use=PluginUse(ref="x"), trials=1),)
    write_run([record], matrix=matrix)
    page = Page()
    text = await written(context, format="html")
    page.feed(text)
    assert page.bad == [] and page.open == []
    markdown = await written(context)
    rows = [line for line in markdown.splitlines() if line.startswith("| =cmd")]
    assert len(rows) == 1 and rows[0].replace("\\|", "").count("|") == 14
    assert "<script" not in markdown and "[x](" not in markdown and "\n# e" not in markdown
    (row,) = csv.DictReader((await written(context, format="csv")).splitlines())
    assert row["agent"].startswith("'=cmd")
    for shown in (text, markdown, row["agent"]):
        assert "\u202e" not in shown
    assert json.loads(await written(context, format="json"))["rows"][0]["agent"] == HOSTILE


@pytest.mark.parametrize("format", ["md", "json", "csv"])
async def test_appending_has_each_run_once_as_its_last_report_says(run_dir, context, tmp_path, format):
    dest = str(tmp_path / f"all.{format}")
    inputs = ReportInputs(dest=dest, append=True)
    alone = await written(context, dest=dest, append=True)
    assert await written(context, dest=dest, append=True) == alone
    await Report().run(context(Scope.PER_EXPERIMENT, run_id="weekly"), inputs)
    both = (tmp_path / f"all.{format}").read_bytes().decode()
    assert both.startswith(alone)
    # A later step fails: the run has another report, and not a second one.
    (run_dir / "results.jsonl").write_bytes(trial(1, 0.0, llm_spec="opus").to_line() + trial(5, 0.0).to_line())
    last = await written(context, incomplete="ship: no", dest=dest, append=True)
    if format == "json":
        said = [json.loads(line) for line in last.splitlines()]
        assert [(line["run_id"], line["total"]["mean_reward"]) for line in said] == [
            ("nightly", 0.0),
            ("weekly", 0.625),
        ]
        assert [line["incomplete"] for line in said] == ["ship: no", None]
    elif format == "csv":
        rows = list(csv.DictReader(last.splitlines()))
        assert {row["run_id"] for row in rows[:2]} == {"weekly"}
        assert [row["mean_reward"] for row in rows if row["run_id"] == "nightly" and row["mean_reward"]] == ["0.0"] * 2
    else:
        assert last.count("# spring · nightly") == last.count("# spring · weekly") == 1
        assert last.count("did not complete") == 1
        assert last.index("did not complete") < last.index("# spring · weekly")


async def test_appending_leaves_what_others_have_written(run_dir, context, tmp_path):
    (tmp_path / "notes.md").write_text("# Notes\n\nours")
    await written(context, dest=str(tmp_path / "notes.md"), append=True)
    with (tmp_path / "notes.md").open("a") as file:
        file.write("\nbelow\n")
    text = await written(context, incomplete="ship: no", dest=str(tmp_path / "notes.md"), append=True)
    assert text.startswith("# Notes\n\nours\n\n<!-- run nightly") and text.endswith("-->\n\nbelow\n")
    (tmp_path / "all.jsonl").write_text('not json\n["nor a report"]')
    lines = (await written(context, dest=str(tmp_path / "all.jsonl"), append=True)).splitlines()
    assert lines[:2] == ["not json", '["nor a report"]'] and len(lines) == 3


async def test_appending_to_another_table_is_refused_and_changes_nothing(run_dir, context, tmp_path):
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="other columns"):
        await written(context, dest=str(tmp_path / "other.csv"), append=True)
    assert (tmp_path / "other.csv").read_text() == "a,b\n1,2\n"


async def test_where_nothing_was_measured_no_coverage_is_called_low(write_run, context):
    matrix = (AgentRow(agent="claude", use=PluginUse(ref="claude"), trials=1),)
    write_run([], matrix=matrix, planned=2)
    text = await written(context, incomplete="case cases/a did not pass the gate")
    assert "Nothing was measured." in text and "LOW COVERAGE" not in text


@pytest.mark.parametrize("dest", ["../esc.md", "a/../../esc.md", "..", "../other-run/report.md"])
async def test_only_an_absolute_path_leads_out_of_the_run(run_dir, context, dest):
    with pytest.raises(ValidationError, match="leads out of the run's directory; give an absolute path"):
        ReportInputs(dest=dest)
    # A template in it is filled in later.
    with pytest.raises(ValueError, match="leads out"):
        await Report().run(context(Scope.PER_EXPERIMENT), ReportInputs.model_construct(dest=dest))
    assert not (run_dir.parent / "esc.md").exists()


@pytest.mark.parametrize("dest", ["results.jsonl", "trials/t1/report.md", "./manifest.json", ".", "x/../.lock"])
async def test_the_files_of_the_run_are_safe_from_it(run_dir, context, dest):
    before = (run_dir / "results.jsonl").read_bytes()
    # Before anything runs, and also where only the run itself can tell.
    with pytest.raises(ValidationError, match="keeps its own files"):
        ReportInputs(dest=dest)
    with pytest.raises(ValueError, match="keeps its own files"):
        await Report().run(context(Scope.PER_EXPERIMENT), ReportInputs(dest=str(run_dir / dest)))
    assert (run_dir / "results.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "given",
    [{"format": "html", "append": True}, {"dest": "a.html", "append": True}, {"pass_at": float("nan")}, {"x": 1}],
)
def test_inputs_that_make_no_sense_are_refused(given):
    with pytest.raises(ValueError):
        ReportInputs(**given)


async def test_long_lists_are_cut_and_say_so(write_run, context):
    write_run(trial(n, None, failure_code=FailureCode.ENV_FAILED, failure_message="x" * 50) for n in range(120))
    text = await written(context)
    assert "… and 70 more" in text
    data = json.loads(await written(context, format="json"))
    assert data["unmeasured"]["total"] == 120 and len(data["unmeasured"]["listed"]) == 50
