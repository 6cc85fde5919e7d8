"""The card of a dataset: what the hub reads, and what a reader has to know before the numbers mean anything."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentix.plugins.steps.standard.counted import counted
from agentix.plugins.steps.standard.dataset.columns import COLUMNS, features
from agentix.plugins.steps.standard.dataset.facts import Facts
from agentix.plugins.steps.standard.dataset.licences import front_matter
from agentix.plugins.steps.standard.markdown import clean, escaped, table
from agentix.plugins.steps.standard.pinned import pinned
from agentix.plugins.steps.standard.report.wording import bounds_note, cells, header, headline

CASES_FILE = "cases.jsonl"
MOST = 200
"""How many cases are listed in the card; all of them are in a file beside it."""
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def card(facts: Facts, *, title: str, license: str | None, files: str) -> str:
    """README.md.

    Args:
        facts: Of the run.
        title: What it is called.
        license: As the author gave it.
        files: Where the rows are, relative to the dataset.
    """
    lines = ["---", *_yaml(_front_matter(facts, title=title, license=license, files=files)), "---", ""]
    return "\n".join([*lines, *_body(facts, title=title, license=license)]) + "\n"


def _front_matter(facts: Facts, *, title: str, license: str | None, files: str) -> dict[str, Any]:
    return {
        "pretty_name": title,
        **({} if license is None else front_matter(license)),
        "tags": ["agentix", "agents", "evaluation", "rollouts"],
        "size_categories": [next((size for most, size in _SIZES if facts.rows < most), "n>1M")],
        "configs": [{"config_name": "default", "data_files": [{"split": "train", "path": files}]}],
        "dataset_info": {"config_name": "default", "features": features()},
    }


def _yaml(data: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield f"{indent}{key}:"
            yield from _yaml(value, indent + "  ")
        elif isinstance(value, list):
            yield f"{indent}{key}:"
            # Text in JSON is text in YAML too, whatever it holds.
            yield from (f"{indent}- {json.dumps(item, ensure_ascii=False)}" for item in value)
        else:
            yield f"{indent}{key}: {json.dumps(clean(str(value)), ensure_ascii=False)}"


def _body(facts: Facts, *, title: str, license: str | None) -> Iterator[str]:
    yield from (f"# {escaped(title)}", "")
    yield f"One row for each of {counted(facts.rows, 'trial')} of the experiment {escaped(facts.experiment)}, run"
    yield f"{escaped(facts.run_id)}: what an agent did with a task once, and what a scorer gave for it."
    yield from ("" if license else "\nNo licence was declared.\n", "```python", "from datasets import load_dataset", "")
    yield from ('trials = load_dataset("path/of/this/dataset", split="train")', "```", "")
    yield from _numbers(facts)
    yield from _left_out(facts)
    yield from _section("Outcomes", ["outcome", "trials"], _counts(facts.outcomes))
    yield from _cases(facts)
    yield from _section("Setup", ["what", "value"], list(facts.setup()))
    yield from _redaction(facts)
    yield from ("## Columns", "", "A null is always something that is not known or not there, and never a value.", "")
    yield from table(["column", "type", "what it is"], [(n, *about) for n, about in COLUMNS.items()])


def _numbers(facts: Facts) -> Iterator[str]:
    yield from ("## Numbers", "", escaped(headline(facts.numbers)), "")
    if facts.numbers.rows:
        yield from table(header(None), [cells(row, None) for row in facts.numbers.rows.values()])
    if note := bounds_note(facts.numbers):
        yield from (note, "")
    if facts.dropped:
        yield from (
            "The numbers are of all trials, also of those that were kept from publication: what is published was",
            "chosen after the measurement, and a mean over the rows alone would be a mean over that choice.",
            "",
        )


def _left_out(facts: Facts) -> Iterator[str]:
    said = [
        (facts.dropped, "were kept from publication by the experiment; nothing that they left is here"),
        (facts.infra_left_out, "have no row: nothing was measured, and not for a fault of the agent"),
        (facts.elsewhere, "were planned, and did not run or could not be made fit for publication"),
        (facts.too_large, "rows lack a patch or a trajectory that is too large for a row, or no text"),
    ]
    if any(count for count, _ in said):
        yield from ("## What is not in it", "")
        yield from (f"- {count} {what}" for count, what in said if count)
        yield ""


def _cases(facts: Facts) -> Iterator[str]:
    cases = facts.cases
    yield from ("## Cases", "")
    if not facts.has_admission:
        yield from ("No admission check was part of this run: nothing showed that a case can be solved at all.", "")
    rows = [
        (
            str(case.get("label", "")),
            str(case.get("sha256") or "not known"),
            pinned(case),
            "; ".join(case["gate"]) or "no verdict",
        )
        for case in cases[:MOST]
    ]
    if rows:
        yield from table(["case", "sha256", "from", "checks"], rows)
    if len(cases) > MOST:
        yield from (f"… and {len(cases) - MOST} more in `{CASES_FILE}`", "")


def _redaction(facts: Facts) -> Iterator[str]:
    yield from ("## Redaction", "")
    yield "Keys and other secret values that the run knew of, and what looks like one, were taken out of every file."
    yield ""
    yield from table(["kind", "taken out"], _counts(facts.redaction)) if facts.redaction else ("None was found.", "")


def _section(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if rows:
        yield from (f"## {title}", "")
        yield from table(names, rows)


def _counts(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    return [(name, str(count)) for name, count in sorted(counts.items())]
