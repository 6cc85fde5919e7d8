"""What a run shows while it goes on."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from agentix.api import FailureCode, Record
from agentix.cli.api import Output, StepFailure
from agentix.plugins.experiments.progress import Board, CaseCount, Guarded, Plain, heartbeat, make_display, result_line
from agentix.plugins.experiments.progress import board as board_module

Record = Record


def record(name: str, **values) -> Record:
    case, *_ = name.split("-")
    given = {"trial_id": name, "case": f"cases/{case}", "reward": 0.42, "seconds": 18.3}
    return Record(**{**given, **values})


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Board:
    """A board on which no time passes."""
    now = time.monotonic()
    monkeypatch.setattr(board_module, "time", SimpleNamespace(monotonic=lambda: now))
    board = Board("nightly", "e", planned=34, state="running", started=now)
    board.cases = {"cases/libaom": CaseCount(of=17), "cases/spidermonkey": CaseCount(of=17)}
    for number in range(1, 5):
        board.count(record(f"libaom-{number}", dropped=number == 1))
    for number in (1, 2):
        board.count(record(f"spidermonkey-{number}"))
    board.begin("libaom-7", "cases/libaom", "harbor")
    board.in_flight["libaom-7"].since -= 252
    board.begin("libaom-8", "cases/libaom", "harbor")
    for name, step in (("libaom-9", "archive"), ("libaom-5", "ship")):
        board.begin(name, "cases/libaom", "harbor")
        board.move(name, step)
    return board


def test_the_heartbeat_says_how_far_what_is_where_and_what_takes_longest(board: Board) -> None:
    assert list(heartbeat(board)) == [
        "6/34 done · 4 running (harbor×2, archive×1, ship×1) · 1 dropped · mean 0.42",
        "libaom 4/17 · spidermonkey 2/17",
        "slowest: libaom-7 in harbor for 4m12s",
    ]


def test_a_result_has_how_far_the_run_is(board: Board) -> None:
    board.count(record("libaom-5"))
    assert result_line(record("libaom-5"), board) == "[7/34] libaom-5: reward 0.420 (18.3 s)"
    failed = record("x-1", reward=None, failure_code=FailureCode.HOST_ERROR, failure_message="gone", attempts=2)
    assert result_line(failed, board) == "[7/34] x-1: HOST_ERROR: gone (18.3 s, attempt 2)"
    step = record("x-1", step_failures=(StepFailure(step="ship", code=FailureCode.STEP_FAILED),))
    assert result_line(step, board).endswith("; step ship failed")


def test_progress_is_whole_and_counts_what_is_unmeasured(board: Board) -> None:
    board.count(record("libaom-6", reward=None, failure_code=FailureCode.ENV_FAILED))
    board.count(record("libaom-7", reward=None, failure_code=FailureCode.AGENT_FAILED))
    data = json.loads(json.dumps(board.to_data(), allow_nan=False))
    assert data["cases"]["cases/libaom"] == {"of": 17, "done": 6, "dropped": 1, "failed": 1}
    assert data["failures"] == {"AGENT_FAILED": 1, "ENV_FAILED": 1}
    assert [trial["trial_id"] for trial in data["in_flight"]] == ["libaom-8", "libaom-9", "libaom-5"]


def test_plain_lines_carry_the_time_and_no_escapes(board: Board) -> None:
    stream = io.StringIO()
    display = Plain(Output(stream), every_s=0, clock=lambda: "09:11:19")
    display.note("matrix: 34 trials")
    display.say("bad \x1b[31m name")
    display.tick(board)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "09:11:19 matrix: 34 trials"
    assert lines[1] == "09:11:19 bad \\x1b[31m name"
    assert lines[2].startswith("09:11:19 6/34 done · 4 running")


def test_a_narrow_encoding_and_a_closed_stream_end_nothing(board: Board) -> None:
    raw = io.BytesIO()
    display = make_display(Output(io.TextIOWrapper(raw, encoding="ascii")))
    display.say("4 running (harbor×2)")
    assert b"harbor\\xd72" in raw.getvalue()
    closed = io.StringIO()
    closed.close()
    make_display(Output(closed)).say("nobody reads this")


def test_a_display_that_fails_is_off_and_the_run_goes_on(board: Board) -> None:
    class Broken(Plain):
        def tick(self, board: Board) -> None:
            raise ZeroDivisionError

    stream = io.StringIO()
    display = Guarded(Broken(Output(stream)))
    display.note("one")
    display.tick(board)
    display.note("two")
    assert stream.getvalue().count("\n") == 1


def test_quiet_shows_only_what_has_to_be_known(board: Board) -> None:
    stream = io.StringIO()
    display = make_display(Output(stream), quiet=True)
    display.note("matrix: 34 trials")
    display.result(record("libaom-1"), board)
    display.tick(board)
    display.say("SIGINT: no new trials")
    assert stream.getvalue() == "SIGINT: no new trials\n"


LIVE = """
import sys, os
from agentix.cli.api import Output
from agentix.plugins.experiments.progress import Board, CaseCount, make_display
from agentix.api import Record, FailureCode
os.environ.pop("CI", None)
board = Board("nightly", "e", planned=34, state="running")
board.cases = {f"cases/case-{n}": CaseCount(of=2) for n in range(17)}
display = make_display(Output.stdout())
for n in range(30):
    board.begin(f"case-{n}-someone-with-a-long-name-{n}", f"cases/case-{n}", "harbor")
record = Record(trial_id="case-1-x-1", case="cases/case-1", reward=None, failure_code=FailureCode.HOST_ERROR)
board.count(record)
display.result(record, board)
display.tick(board)
display.say("a line that stays")
display.tick(board)
display.close()
print("after", type(display).__name__)
"""


@pytest.mark.parametrize("size", [(24, 80), (10, 30), (50, 200)])
def test_the_live_view_fits_its_terminal_and_leaves_it_clean(size: tuple[int, int]) -> None:
    main, side = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "LINES": str(size[0]), "COLUMNS": str(size[1]), "PYTHONIOENCODING": "utf-8"}
    env.pop("NO_COLOR", None)
    shown = subprocess.Popen([sys.executable, "-c", LIVE], stdout=side, stderr=side, env=env)
    os.close(side)
    data = b""
    while select.select([main], [], [], 240)[0]:
        try:
            piece = os.read(main, 65536)
        except OSError:
            break
        if not piece:
            break
        data += piece
    os.close(main)
    assert shown.wait(240) == 0, data.decode()
    text = data.decode()
    assert "after Live" in text
    assert "a line that stays" in text
    assert "HOST_ERROR" in text
    assert "1/34" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h"), "the cursor is left hidden"
