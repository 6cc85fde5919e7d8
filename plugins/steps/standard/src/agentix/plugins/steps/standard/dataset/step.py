"""The step `dataset`: its inputs, and a directory with rows and a card."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

import anyio.from_thread
import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, field_validator

from agentix.api import RUN_NAMES, Record, Scope, StepContext, StepOutcome
from agentix.plugins.steps.standard.counted import counted
from agentix.plugins.steps.standard.dataset.card import CASES_FILE, card
from agentix.plugins.steps.standard.dataset.facts import Facts, gather
from agentix.plugins.steps.standard.dataset.licences import checked
from agentix.plugins.steps.standard.dataset.rows import RowMaker
from agentix.plugins.steps.standard.dataset.tables import JsonLines, Parquet, Table
from agentix.plugins.steps.standard.pinned import pinned

if TYPE_CHECKING:
    from agentix.api import AgentUse, Limits

_TAKEN = RUN_NAMES | {"archives"}


class DatasetInputs(BaseModel):
    """What the dataset is called, and what is in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dir: str = "dataset"
    """Where it is in the run's directory."""
    include_dropped: bool = False
    """Rows for dropped trials too, with what was measured and nothing that they left."""
    include_infra_failures: bool = False
    """Rows for trials too of which nothing was measured, for no fault of the agent."""
    title: str | None = Field(default=None, min_length=1)
    """By default the experiment and the run."""
    license: str | None = Field(default=None, min_length=1)
    """An SPDX id, or a licence word of the Hugging Face hub."""
    format: Literal["jsonl", "parquet"] = "jsonl"

    @field_validator("dir")
    @classmethod
    def _below_the_run(cls, value: str) -> str:
        path = PurePosixPath(value)
        if (
            path.is_absolute()
            or not path.parts
            or not value.isprintable()
            or any(p.startswith(".") for p in path.parts)
        ):
            raise ValueError(f"dir {value!r} is no place in the run's directory; give a name such as dataset")
        if path.parts[0] in _TAKEN:
            raise ValueError(f"dir {value!r} is where the run keeps its own files; give the dataset another name")
        return str(path)

    @field_validator("license")
    @classmethod
    def _a_licence(cls, value: str | None) -> str | None:
        return None if value is None else checked(value)


class Dataset:
    """Write what may be published of the run as a dataset: a row for each trial, and a card.

    `datasets` and the viewer of the Hugging Face hub open the directory as it is. The card has what the numbers are
    worthless without: the tasks by their hashes, what was checked of them, what ran with what, and what was left out.
    """

    scopes = frozenset({Scope.PER_EXPERIMENT})
    Inputs = DatasetInputs
    publishes = True

    def check(
        self, inputs: DatasetInputs, *, agents: Sequence[AgentUse] = (), limits: Limits | None = None
    ) -> Iterable[str]:
        """Say that what writes Parquet is missing, where it is."""
        if inputs.format == "parquet" and find_spec("pyarrow") is None:
            yield "format: parquet needs pyarrow: pip install 'agentix-rollouts-steps[parquet]'; or use format: jsonl"

    def places(self, inputs: DatasetInputs) -> Iterable[str]:
        """Its directory."""
        yield inputs.dir

    async def run(self, ctx: StepContext, inputs: DatasetInputs) -> StepOutcome:
        """Write it.

        Raises:
            RecordsDamaged: The results cannot be read.
            OSError: A file cannot be read or written.
        """
        return await anyio.to_thread.run_sync(_write, ctx, inputs)


def _write(ctx: StepContext, inputs: DatasetInputs) -> StepOutcome:
    target, fresh = ctx.work_dir / "dataset", ctx.work_dir / ".dataset.tmp"
    for old in (target, fresh):
        with suppress(FileNotFoundError):
            shutil.rmtree(old)
    (fresh / "data").mkdir(parents=True)
    try:
        facts = _fill(fresh, ctx, inputs)
        fresh.rename(target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return _outcome(facts, inputs, target)


def _fill(fresh: Path, ctx: StepContext, inputs: DatasetInputs) -> Facts:
    facts, read = gather(
        ctx,
        include_dropped=inputs.include_dropped,
        include_infra_failures=inputs.include_infra_failures,
        check=anyio.from_thread.check_cancelled,
    )
    maker = RowMaker(run_dir=ctx.run_dir, models=_models(facts), masked=ctx.secrets.data)
    table: Table
    with JsonLines(fresh) if inputs.format == "jsonl" else Parquet(fresh) as table:

        def add(record: Record, published: bool) -> Mapping[str, Any]:
            row = ctx.secrets.within(maker.row(record, published=published))
            table.add(row)
            return row

        read(add)
        files = table.finish()
    title = ctx.secrets.text(inputs.title or f"{facts.experiment} {facts.run_id}")
    text = card(facts, title=title, license=inputs.license, files=files)
    (fresh / CASES_FILE).write_bytes(b"".join(_case_line(case) for case in facts.cases))
    (fresh / "README.md").write_text(text, encoding="utf-8", newline="")
    return facts


def _outcome(facts: Facts, inputs: DatasetInputs, target: Path) -> StepOutcome:
    dropped = [f"{facts.dropped} dropped"] if facts.dropped else []
    left = [] if inputs.include_dropped else dropped
    left += [f"{facts.infra_left_out} not measured"] if facts.infra_left_out else []
    among = f", {dropped[0]} among them" if dropped and inputs.include_dropped else ""
    without = f"; without {' and '.join(left)}" if left else ""
    made = f"{counted(facts.rows, 'row')} in {inputs.dir}" if facts.rows else "no row, and so no dataset"
    return StepOutcome(
        message=f"{made}{among}{without}",
        outputs={"rows": facts.rows, "dropped": facts.dropped, "not_measured": facts.infra_left_out},
        # Without a row it is a folder that nothing can open, and would look like something to ship.
        publish={inputs.dir: target} if facts.rows else {},
    )


def _models(facts: Facts) -> dict[str, str]:
    specs = facts.manifest.get("llm_specs") or {}
    return {str(name): str(spec["model"]) for name, spec in specs.items() if spec.get("model")}


def _case_line(case: Mapping[str, Any]) -> bytes:
    kept = ("label", "name", "source", "sha256", "found_sha256", "image_digests", "gate")
    data = {**{key: case.get(key) for key in kept}, "from": pinned(case)}
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
