"""The step `archive`: its inputs, and one archive a trial or many trials an archive."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain, count, islice
from pathlib import Path
from typing import BinaryIO

import anyio.from_thread
import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from agentix.api import Scope, StepContext, StepOutcome, slug
from agentix.plugins.steps.standard.archive.packing import Format, compressed, pack
from agentix.plugins.steps.standard.archive.samples import add_sample, keys
from agentix.plugins.steps.standard.archive.tar import TarWriter
from agentix.plugins.steps.standard.counted import counted
from agentix.plugins.steps.standard.left_out import LeftOut, files_and_directories
from agentix.plugins.steps.standard.results import Results

PLACE = "archives"
_BUFFER = 1 << 20


class ArchiveInputs(BaseModel):
    """What kind of archive."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Format = "tar"
    """The same content gives the same bytes in each of them."""
    shard: int | None = Field(default=None, ge=1)
    """Per experiment, and required there: how many trials are in one archive."""

    def fit(self, scope: Scope) -> None:
        """Check that they mean something for a unit.

        Raises:
            ValueError: They do not.
        """
        if scope is Scope.PER_TRIAL and self.shard is not None:
            raise ValueError("shard has no meaning per_trial, where each trial has an archive of its own")
        if scope is Scope.PER_EXPERIMENT and self.shard is None:
            raise ValueError("shard is missing: per_experiment it says how many trials are in one archive")
        if scope is Scope.PER_EXPERIMENT and self.format == "zip":
            raise ValueError("a zip cannot hold samples that anything reads as a dataset; use tar, tar.gz or tar.zst")

    @model_validator(mode="after")
    def _fitting(self, info: ValidationInfo) -> ArchiveInputs:
        if isinstance(info.context, Mapping) and (scope := info.context.get("scope")) is not None:
            self.fit(scope)
        return self


class Archive:
    """Pack what may be published of a trial, or of many trials each into one file, the same bytes each time.

    Per trial it is `archives/TRIAL.FORMAT`, which unpacks into a directory of that name. Per experiment they are
    `archives/EXPERIMENT-000000.tar` and so on, with `shard` trials in each, as WebDataset and `datasets` read them.
    """

    scopes = frozenset({Scope.PER_TRIAL, Scope.PER_EXPERIMENT})
    Inputs = ArchiveInputs
    publishes = True

    def places(self, inputs: ArchiveInputs) -> Iterable[str]:
        """The first archive of many trials, which there is wherever there are any."""
        if inputs.shard is not None:
            yield f"{PLACE}/{{{{.Experiment}}}}-{0:06d}.{inputs.format}"

    async def run(self, ctx: StepContext, inputs: ArchiveInputs) -> StepOutcome:
        """Pack it.

        Raises:
            ValueError: The inputs are for another scope than it runs in, or the format cannot hold a name.
            OSError: A file cannot be read, or the archive cannot be written.
        """
        inputs.fit(ctx.scope)
        return await anyio.to_thread.run_sync(_of_trial if ctx.scope is Scope.PER_TRIAL else _of_run, ctx, inputs)


def _of_trial(ctx: StepContext, inputs: ArchiveInputs) -> StepOutcome:
    assert ctx.trial_dir is not None
    trial_id = str(ctx.subject["trial_id"])
    left_out, name = LeftOut(), f"{trial_id}.{inputs.format}"
    with _written(_emptied(ctx) / name) as out:
        files, size = pack(
            out,
            ctx.trial_dir,
            files_and_directories(ctx.trial_dir, left_out=left_out),
            format=inputs.format,
            prefix=os.fsencode(trial_id),
            check=anyio.from_thread.check_cancelled,
        )
    return _outcome(ctx, [name], f"{files} files, {size:,} bytes", left_out, {"files": files, "bytes": size})


def _of_run(ctx: StepContext, inputs: ArchiveInputs) -> StepOutcome:
    results, left_out, files = Results(ctx.run_dir), LeftOut(), 0
    directory, experiment = _emptied(ctx), slug(ctx.experiment or ctx.run_id)
    named, lines, names = keys(results.trial_ids), results.lines(), list[str]()
    for number in count():
        shard = islice(lines, inputs.shard)
        first = next(shard, None)
        if first is None:
            break
        names.append(f"{experiment}-{number:06d}.{inputs.format}")
        with _written(directory / names[-1]) as out, compressed(out, inputs.format) as stream:
            tar = TarWriter(stream, check=anyio.from_thread.check_cancelled)
            for trial_id, line in chain([first], shard):
                files += add_sample(
                    tar,
                    named[trial_id],
                    line,
                    ctx.run_dir / "trials" / trial_id,
                    left_out=left_out,
                    check=anyio.from_thread.check_cancelled,
                )
            tar.close()
    said = f"{counted(len(results), 'trial')}, {counted(files, 'file')}"
    return _outcome(ctx, names, said, left_out, {"trials": len(results), "files": files, "archives": len(names)})


def _outcome(
    ctx: StepContext, names: list[str], said: str, left_out: LeftOut, outputs: Mapping[str, int]
) -> StepOutcome:
    packed = f"{PLACE}/{names[0]}" if len(names) == 1 else f"{len(names)} archives"
    without = f"; left out, being no plain files: {left_out}" if left_out.total else ""
    return StepOutcome(
        message=f"{packed}: {said}{without}",
        outputs={**outputs, "left_out": left_out.total},
        publish={f"{PLACE}/{name}": ctx.work_dir / PLACE / name for name in names},
    )


def _emptied(ctx: StepContext) -> Path:
    directory = ctx.work_dir / PLACE
    with suppress(FileNotFoundError):
        shutil.rmtree(directory)
    directory.mkdir()
    return directory


@contextmanager
def _written(path: Path) -> Iterator[BinaryIO]:
    """A file that is there whole or not at all."""
    temp = path.with_name(f".{path.name}.tmp")
    try:
        with temp.open("wb", _BUFFER) as file:
            yield file
        temp.replace(path)
    finally:
        with suppress(FileNotFoundError):
            temp.unlink()
