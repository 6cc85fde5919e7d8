"""Live progress on a terminal: bars for cases and trials, what each trial is doing, what failed."""

from __future__ import annotations

import time

from rich.text import Text

from agentix.api import Record
from agentix.cli.api import Output, Redrawn, codes, number, printable, seconds, trial_line
from agentix.plugins.experiments.progress.board import Board, CaseCount
from agentix.plugins.experiments.progress.wording import result_line, short_case, where

_BAR = 24


class Live(Redrawn[Board]):
    """Bars, cases and trials; every result stays above them.

    Args:
        output: A terminal.
    """

    def __init__(self, output: Output) -> None:
        self._fancy = output.encoding.lower().replace("-", "") == "utf8"
        super().__init__(output, overflow="ellipsis" if self._fancy else "crop")

    def note(self, text: str) -> None:
        """Show a line above the moving ones."""
        self.say(text)

    def result(self, record: Record, board: Board) -> None:
        """Keep a line for every result."""
        style = "red" if record.failure_code is not None or record.step_failures else ""
        self.keep(result_line(record, board), style=style)

    def lines(self, board: Board, *, width: int, height: int) -> list[Text]:
        """How far the run is, its cases, its trials, and the failures."""
        lines = [self._head(board)]
        if board.planned:
            lines.append(self._bar("trials", board.done, board.planned, width, more=self._numbers(board)))
        if len(board.cases) > 1:
            lines.append(self._bar("cases", board.cases_done, len(board.cases), width))
        room = max(2, height - len(lines) - 4)
        lines += self._cases(board, width, most=room // 3)
        lines += self._trials(board, width, most=max(1, room - room // 3))
        failures = " · ".join(codes(board.summary))
        if failures:
            lines.append(Text(f"without a reward: {failures}", style="red"))
        return lines

    def _head(self, board: Board) -> Text:
        doing = f"  {board.doing}" if board.doing else ""
        return Text(f"{printable(board.run_id)}  {board.state}{printable(doing)}  {seconds(board.elapsed)}", "bold")

    def _numbers(self, board: Board) -> str:
        parts = [f"mean {number(board.summary.mean_reward)}"] if board.summary.denominator else []
        if board.dropped:
            parts.append(f"{board.dropped} dropped")
        if board.summary.cost_usd.known:
            parts.append(f"${board.summary.cost_usd.total:.2f}")
        return "  ".join(parts)

    def _bar(self, name: str, done: int, of: int, width: int, *, more: str = "") -> Text:
        length = max(0, min(_BAR, width - 40))
        filled = min(length, round(length * done / of)) if of else 0
        full, empty = ("━", "─") if self._fancy else ("#", ".")
        text = Text(f"{name:<7} ")
        text.append(full * filled, style="green")
        text.append(empty * (length - filled), style="dim")
        text.append(f" {done}/{of}  {more}".rstrip())
        return text

    def _cases(self, board: Board, width: int, *, most: int) -> list[Text]:
        open_cases = [(name, case) for name, case in board.cases.items() if case.of and case.done < case.of]
        if len(board.cases) < 2 or most < 1:
            return []
        busy = {trial.case for trial in board.in_flight.values()}
        open_cases.sort(key=lambda item: item[0] not in busy)
        lines = [self._case(name, case, width) for name, case in open_cases[:most]]
        if len(open_cases) > most:
            lines.append(Text(f"  and {len(open_cases) - most} more cases", style="dim"))
        return lines

    def _case(self, name: str, case: CaseCount, width: int) -> Text:
        told = ((case.dropped, "dropped"), (case.failed, "failed"))
        more = "".join(f"  {count} {word}" for count, word in told if count)
        label = printable(short_case(name))[:28]
        return self._bar(f"  {label:<28}", case.done, case.of, width - 24, more=more)

    def _trials(self, board: Board, width: int, *, most: int) -> list[Text]:
        now = time.monotonic()
        lines = []
        for trial in board.slowest(most):
            doing, took = where(trial.step, trial.phase), now - trial.since
            lines.append(trial_line(trial.trial_id, doing, attempt=trial.attempt, took=took, width=width))
        if len(board.in_flight) > most:
            lines.append(Text(f"  and {len(board.in_flight) - most} more trials", style="dim"))
        return lines
