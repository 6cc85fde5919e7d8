from __future__ import annotations

from pathlib import Path

import pytest

from agentix.errors import AgentixError, UsageError
from agentix.models import FailureCode
from agentix.records import ExperimentManifest, Manifest, Record, UsageRecord, load_run
from agentix.records.experiment import AgentRow, CaseUse, StepUse
from agentix.records.manifest import PluginUse
from agentix.stats import RunNumbers, compare_runs


def record(number: int, reward: float | None, *, case="c1", agent="a", **values) -> Record:
    return Record(trial_id=f"{agent}-{case}-{number}", case=case, agent=agent, index=number, reward=reward, **values)


def test_each_agent_with_each_model_is_a_row_in_the_order_of_the_plan():
    records = [record(1, 1.0, llm_spec="m1"), record(2, 0.0, llm_spec="m2"), record(1, 1.0, agent="oracle")]
    numbers = RunNumbers.of(records, planned={("oracle", None): 2, ("a", "m2"): 1, ("a", "m1"): 1, ("b", None): 1})
    assert [row.name for row in numbers.rows.values()] == ["oracle", "a with m2", "a with m1", "b"]
    assert numbers.total.n == 3 and numbers.total.planned == 5 and numbers.total.unrun == 2
    assert numbers.rows["oracle", None].summary.coverage == 0.5
    assert numbers.rows["b", None].summary.unrun == 1 and numbers.rows["b", None].interval is None


def test_only_the_agents_own_failures_count_and_both_bounds_are_there():
    codes = ["AGENT_TIMEOUT", "AGENT_FAILED", "AGENT_LIMIT", "ENV_FAILED", "HOST_ERROR", "VERIFIER_ERROR"]
    records = [record(n, None, failure_code=FailureCode(code)) for n, code in enumerate(codes, 1)]
    records += [record(n, 1.0) for n in range(7, 10)]
    (row,) = RunNumbers.of(records).rows.values()
    data = row.to_data(pass_at=0.8)
    assert (data["denominator"], data["mean_reward"], data["mean_reward_infra_zero"]) == (6, 0.5, pytest.approx(1 / 3))
    assert data["pass_at"] == {"reward": 0.8, "passed": 3, "of": 6}
    assert (data["median"], data["p25"], data["p75"]) == (0.5, 0.0, 1.0)
    assert data["failures"] == dict.fromkeys(codes, 1)


def test_pass_k_is_averaged_over_the_cases_that_have_enough_trials():
    records = [record(n, float(n == 1), case="c1") for n in (1, 2, 3)] + [record(n, 1.0, case="c2") for n in (1, 2)]
    (row,) = RunNumbers.of(records).rows.values()
    assert [(p.k, p.cases) for p in row.pass_k] == [(1, 2), (2, 2), (3, 1)]
    assert [p.pass_at_k for p in row.pass_k] == pytest.approx([(1 / 3 + 1) / 2, (2 / 3 + 1) / 2, 1.0])
    assert [p.pass_hat_k for p in row.pass_k] == pytest.approx([(1 / 3 + 1) / 2, 0.5, 0.0])
    assert RunNumbers.of([record(1, 1.0)]).rows["a", None].pass_k == ()


def test_a_pass_is_what_the_scorer_calls_resolved():
    records = [record(n, 0.9, metrics={"resolved": 1.0}) for n in (1, 2)]
    (row,) = RunNumbers.of(records).rows.values()
    assert row.pass_k[-1].pass_hat_k == 1.0 and row.pass_at(1.0) == 0


def test_best_worst_tokens_cost_and_what_is_dropped_are_there():
    usage = UsageRecord(input=10, output=5, cost_usd=0.5)
    records = [record(1, 0.2, usage=usage, dropped=True, seconds=2.0), record(2, 0.8, seconds=3.0)]
    (row,) = RunNumbers.of(records).rows.values()
    data = row.to_data()
    assert data["cases"]["c1"] == {"n": 2, "resolved": 0, "mean": 0.5, "best": 0.8, "worst": 0.2}
    assert (data["tokens"], data["tokens_unknown"], data["cost_usd"], data["seconds"]) == (15, 1, 0.5, 5.0)
    assert (row.dropped, row.shipped) == (1, 1)


def write(root: Path, name: str, records: list[Record], *, experiment: bool = True, **values) -> Path:
    path = root / name
    path.mkdir()
    (path / "results.jsonl").write_bytes(b"".join(r.to_line() for r in records))
    manifest: ExperimentManifest | Manifest
    if experiment:
        labels = dict.fromkeys(r.case for r in records)
        cases = tuple(
            CaseUse(name=Path(label).name, label=label, source="local", dataset=PluginUse(ref="harbor"))
            for label in labels
        )
        rows = dict.fromkeys((r.agent, r.llm_spec) for r in records)
        matrix = tuple(AgentRow(agent=a, llm_spec=m, use=PluginUse(ref=a), trials=1) for a, m in rows)
        defaults = {
            "experiment": "e",
            "file": "e.yaml",
            "file_sha256": "0" * 64,
            "executor": StepUse(scope="per_trial", label="rollout", uses="rollout", kind="plugin", fingerprint="f"),
            "provider": PluginUse(ref="docker"),
            "cases": cases,
            "matrix": matrix,
            "planned": len(records),
        }
        manifest = ExperimentManifest(run_id=name, **(defaults | values))
    else:
        uses = {kind: PluginUse(ref=kind) for kind in ("dataset", "agent", "provider")}
        manifest = Manifest(run_id=name, **(uses | values))
    (path / "manifest.json").write_bytes(manifest.to_bytes())
    return path


def rewards(agent: str, values: list[float], *, prefix: str = "") -> list[Record]:
    return [record(1, value, case=f"{prefix}c{n}", agent=agent) for n, value in enumerate(values)]


def test_two_runs_are_compared_case_by_case(tmp_path):
    a = load_run(write(tmp_path, "a", rewards("old", [0.0, 0.5, 1.0, 0.5, 0.0, 0.3])))
    b = load_run(
        write(tmp_path, "b", rewards("new", [1.0, 0.5, 0.0, 1.0, 1.0, 0.1 + 0.2]), provider=PluginUse(ref="k8s"))
    )
    found = compare_runs(a, b)
    (pair,) = found.pairs
    assert (pair.a, pair.b) == ("a: old", "b: new")
    assert (pair.wins, pair.losses, pair.ties) == (3, 1, 2)
    assert pair.difference == pytest.approx(1.5 / 6) and pair.interval is not None
    assert pair.interval.low < 0.25 < pair.interval.high
    assert pair.sign_p == pytest.approx(2 * 5 / 16) and pair.permutation == "exact"
    assert "provider: docker -> k8s" in found.changes


def test_rows_of_the_same_name_are_compared_and_the_others_are_named(tmp_path):
    a = load_run(write(tmp_path, "a", rewards("x", [0, 1]) + rewards("y", [1, 1]) + rewards("gone", [1])))
    b = load_run(write(tmp_path, "b", rewards("y", [0, 1]) + rewards("x", [1, 1]) + rewards("new", [1])))
    found = compare_runs(a, b)
    assert [(p.a, p.wins, p.losses) for p in found.pairs] == [("a: x", 1, 0), ("a: y", 0, 1)]
    assert (found.unpaired_a, found.unpaired_b) == (("gone",), ("new",))
    within = compare_runs(a, a, row_a="x", row_b="y")
    assert [(p.a, p.b) for p in within.pairs] == [("a: x", "a: y")] and within.changes == ()
    with pytest.raises(UsageError, match="no measured row 'z'"):
        compare_runs(a, b, row_a="z")


def test_cases_that_only_one_has_measured_are_named_and_left_out(tmp_path):
    broken = [record(1, None, case="c1", failure_code=FailureCode.HOST_ERROR)]
    a = load_run(write(tmp_path, "a", [record(1, 1.0, case="c0"), record(1, 1.0, case="c1")]))
    b = load_run(write(tmp_path, "b", [record(1, 1.0, case="c0"), *broken, record(1, 0.0, case="c2")]))
    found = compare_runs(a, b)
    (pair,) = found.pairs
    assert (pair.only_a, pair.only_b, len(pair.cases)) == (("c1",), ("c2",), 1)
    assert found.unmeasured == {"a": 0, "b": 1}
    assert pair.interval is None and pair.permutation_p is None and pair.sign_p is None


def test_a_run_of_an_experiment_is_compared_with_one_of_rollouts(tmp_path):
    a = load_run(write(tmp_path, "a", rewards("x", [0, 1], prefix="cases/")))
    b = load_run(write(tmp_path, "b", rewards("x", [1, 1]), experiment=False))
    found = compare_runs(a, b)
    (pair,) = found.pairs
    assert [c.case for c in pair.cases] == ["c0", "c1"] and pair.wins == 1
    assert found.changes[0] == "kind: experiment -> rollout"


def test_runs_that_have_nothing_in_common_are_refused_with_what_they_have(tmp_path):
    a = load_run(write(tmp_path, "a", rewards("x", [0]) + rewards("y", [1])))
    b = load_run(write(tmp_path, "b", rewards("z", [0]) + rewards("w", [1])))
    with pytest.raises(UsageError, match="have no agent with the same model in common") as caught:
        compare_runs(a, b)
    assert "--row-a, --row-b): a has 'x', 'y'; b has 'z', 'w'" in str(caught.value)


def test_comparing_without_scipy_says_what_to_install(tmp_path, monkeypatch):
    import builtins

    real = builtins.__import__

    def no_scipy(name, *args, **kwargs):
        if name.startswith("scipy"):
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    run = load_run(write(tmp_path, "a", rewards("x", [0, 1])))
    monkeypatch.setattr(builtins, "__import__", no_scipy)
    with pytest.raises(AgentixError, match="needs SciPy") as caught:
        compare_runs(run, run)
    assert "agentix-rollouts-core[stats]" in str(caught.value)
