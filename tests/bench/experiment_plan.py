"""Laying out 100,000 trials of an experiment: CPU time, and growth of memory."""

from __future__ import annotations

import gc
import time
from pathlib import Path

from table import Row, show

from agentix.api import Case
from agentix.plugins.experiments.documents import AgentSpec, CaseSpec, Experiment, LLMSpec, Matrix, Submission
from agentix.plugins.experiments.plan import make_plan

CASES, AGENTS, MODELS, TRIALS = 1_000, 5, 2, 10


def rss_mib() -> float:
    """Resident memory of this process."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def submission() -> Submission:
    """An experiment with a matrix of 100 trials a case."""
    matrix = Matrix(
        agents=tuple(AgentSpec(name=f"agent-{number}") for number in range(AGENTS)),
        llm_specs=tuple(f"model-{number}" for number in range(MODELS)),
        trials=TRIALS,
    )
    return Submission(
        path=Path("experiment.yaml"),
        sha256="0" * 64,
        text=b"",
        experiment=Experiment(name="bench", cases=(CaseSpec(path="cases/*"),), matrix=matrix),
        llm_specs={name: LLMSpec(name=name, model=name) for name in matrix.llm_specs},
    )


def rows() -> list[Row]:
    """Measure."""
    planned = submission()
    cases = [
        Case(name=f"case-{n}", label=f"cases/case-{n}", source="local", dataset="harbor", instance={})
        for n in range(CASES)
    ]
    gc.collect()
    before, began = rss_mib(), time.process_time()
    plan = make_plan(planned, cases)
    seconds, grown = time.process_time() - began, rss_mib() - before
    assert len({trial.trial_id for trial in plan.trials}) == len(plan.trials) == 100_000
    return [
        Row(name="planning 100,000 trials, CPU time", ours=seconds, unit="s", target=3, better="less"),
        Row(name="planning 100,000 trials, growth of memory", ours=grown, unit="MiB", target=300, better="less"),
    ]


if __name__ == "__main__":
    show(rows())
