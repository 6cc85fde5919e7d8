"""A run that this process holds: where its results go, who is shown and told what happens, what may leave it."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from agentix.api import Hooks
from agentix.cli.api import ExperimentWriter, Output, log, logging_to
from agentix.plugins.experiments.cases import SNAPSHOTS
from agentix.plugins.experiments.engine.closing_steps import open_publication
from agentix.plugins.experiments.engine.outcome import Outcome
from agentix.plugins.experiments.engine.parts import Parts
from agentix.plugins.experiments.engine.publication import Publication
from agentix.plugins.experiments.progress import Board, Display, Guarded, make_display


@dataclass(frozen=True, kw_only=True)
class LiveRun:
    """What every stage of a session works with."""

    parts: Parts
    writer: ExperimentWriter
    """Holds the run's directory."""
    board: Board
    """Counts."""
    display: Display
    """Shows."""
    hooks: Hooks
    """Told about everything."""
    publication: Publication
    """What of the run may leave this machine."""
    outcome: Outcome
    """Where it is noted how far the session came."""
    notices: tuple[str, ...]
    """What the user should know before it goes on."""
    verbose: bool
    kept: ExitStack
    """Closed when the run is."""

    @property
    def root(self) -> Path:
        """The run's directory."""
        return self.writer.layout.root

    def start_log(self, first: str) -> None:
        """Have everything from now on in the run's log, with a first line."""
        self.kept.enter_context(logging_to(self.writer.layout.log, verbose=self.verbose))
        log.info("%s", first)

    def say(self, text: str) -> None:
        """Tell the user and the log what has to be known."""
        self.display.say(text)
        log.warning("%s", text)

    def note(self, text: str) -> None:
        """Tell the user and the log what is good to know."""
        self.display.note(text)
        log.info("%s", text)

    def notes(self, notices: Iterable[str]) -> None:
        """Tell them several things of that kind."""
        for notice in notices:
            self.note(f"note: {notice}")

    def told(self, notes: Sequence[str]) -> None:
        """Keep what hooks have answered."""
        for note in notes:
            log.warning("%s", note)


@contextmanager
def open_run(
    parts: Parts,
    path: Path,
    *,
    run_id: str,
    output: Output,
    outcome: Outcome,
    verbose: bool,
    quiet: bool = False,
    plain: bool = False,
) -> Iterator[LiveRun]:
    """Take a run's lock and read what there is of it.

    Args:
        parts: What the run is made of.
        path: Its directory.
        run_id: Its name.
        output: What people read.
        outcome: Where to note how far it came.
        verbose: Whether what happens is told line by line, with more in the log.
        quiet: Whether as little as possible is shown.
        plain: Whether nothing is drawn.

    Raises:
        AgentixError: Another process writes to it, or what is there cannot be read.
    """
    hooks, notes = Hooks.installed()
    there = {entry.name for entry in path.iterdir()} if path.is_dir() else set[str]()
    board = Board(run_id, parts.submission.experiment.name)
    with (
        ExperimentWriter(path, seen=board.count) as writer,
        _nothing_left(writer, there=there),
        Guarded(make_display(output, quiet=quiet, plain=plain or verbose)) as display,
        ExitStack() as kept,
    ):
        publication = kept.enter_context(open_publication(parts, path, hooks=hooks))
        yield LiveRun(
            parts=parts,
            writer=writer,
            board=board,
            display=display,
            hooks=hooks,
            publication=publication,
            outcome=outcome,
            notices=(*parts.notices, *notes, *writer.notices),
            verbose=verbose,
            kept=kept,
        )


_FIRST = ("run.log", "progress.json", "experiment.yaml", SNAPSHOTS)
"""What there may be of a run before anything of it is recorded."""


@contextmanager
def _nothing_left(writer: ExperimentWriter, *, there: Collection[str]) -> Iterator[None]:
    """Remove what this session has made of a run that it could not begin.

    Args:
        writer: Holds the run's directory.
        there: What there was before, which somebody else may want.
    """
    try:
        yield
    finally:
        if not writer.layout.manifest.exists():
            for place in (writer.layout.root / name for name in _FIRST if name not in there):
                shutil.rmtree(place, ignore_errors=True)
                with suppress(OSError):
                    place.unlink()
