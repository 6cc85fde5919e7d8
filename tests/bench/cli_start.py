"""How long a command takes before it does anything: `agentix --help`, and a whole run of one mock rollout.

Each figure is the median of several processes, from their start to their end, with warm files.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from table import Row, show

PROCESSES = 9
MOCK = """
from agentix.sandbox.host_process import HostProcessProvider
from agentix.testing import FakeAgent, FakeDataset

dataset = FakeDataset(1)
agent = FakeAgent()
provider = HostProcessProvider()
"""
START = "import sys, agentix_console as console; sys.exit(console.{command}())"


def seconds(command: str, arguments: Sequence[str], cwd: Path) -> float:
    """Median duration of a process that runs a command."""
    argv = [sys.executable, "-c", START.format(command=command), *arguments]
    taken = []
    for _ in range(PROCESSES + 1):
        started = time.perf_counter()
        subprocess.run(argv, cwd=cwd, stdout=subprocess.DEVNULL, check=True)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken[1:])


def rows() -> list[Row]:
    """Measure."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "mock.py").write_text(MOCK)
        run = ["--dataset", "./mock.py:dataset", "--agent", "./mock.py:agent", "--provider", "./mock.py:provider"]
        return [
            Row(
                name="`agentix --help`",
                ours=seconds("agentix", ["--help"], place),
                unit="s",
                better="less",
                target=0.25,
            ),
            Row(
                name="`agentix-run` of one mock rollout, results on disk",
                ours=seconds("agentix_run", run, place),
                unit="s",
                better="less",
                target=0.5,
            ),
        ]


if __name__ == "__main__":
    show(rows())
