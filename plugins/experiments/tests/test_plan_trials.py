"""The plan: the same trials with the same ids, and no two with one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.api import Case, UsageError, slug
from agentix.plugins.experiments.documents import (
    AgentSpec,
    CaseSpec,
    Commands,
    CommandSpec,
    Experiment,
    ExperimentError,
    LLMSpec,
    Matrix,
    Submission,
    load,
)
from agentix.plugins.experiments.plan import agent_kinds, id_problems, make_plan, select_cases


def case(name: str, label: str | None = None) -> Case:
    return Case(name=name, label=label or f"cases/{name}", source="local", dataset="harbor", instance={})


def submission(
    *agents: AgentSpec | str, specs: tuple[str, ...] = (), trials: int = 1, commands: tuple[str, ...] = ()
) -> Submission:
    return Submission(
        path=Path("e.yaml"),
        sha256="0" * 64,
        text=b"",
        experiment=Experiment(
            name="n",
            cases=(CaseSpec(path="x"),),
            matrix=Matrix(
                agents=tuple(AgentSpec(name=agent) if isinstance(agent, str) else agent for agent in agents),
                llm_specs=specs,
                trials=trials,
            ),
        ),
        llm_specs={name: LLMSpec(name=name, model=name) for name in ("opus", "sonnet", "haiku")},
        commands=Commands(commands={name: CommandSpec(run=("true",)) for name in commands}),
    )


def ids(*cases: str, of: Submission) -> list[str]:
    return [trial.trial_id for trial in make_plan(of, [case(name) for name in cases]).trials]


def test_trials_come_by_case_then_agent_then_model_then_index() -> None:
    plan = make_plan(submission("one", "two", specs=("opus", "sonnet"), trials=2), [case("b"), case("a")])
    found = [(t.case.name, t.agent.name, t.llm.name if t.llm else None, t.index) for t in plan.trials]
    assert found == [
        (name, agent, spec, index)
        for name in ("b", "a")
        for agent in ("one", "two")
        for spec in ("opus", "sonnet")
        for index in (1, 2)
    ]
    assert [trial.position for trial in plan.trials] == list(range(16))
    assert plan.trials[0].trial_id == "b-one-opus-1"
    assert plan.line == "matrix: 16 trials across 2 cases"


def test_agents_that_always_do_the_same_run_once_and_cross_with_no_model() -> None:
    plan = make_plan(submission("oracle", "nop", "mine", specs=("opus",), trials=2), [case("a"), case("b")])
    assert plan.line == "matrix: 8 trials across 2 cases (oracle, nop ran once: deterministic)"
    assert [trial.trial_id for trial in plan.trials][:4] == ["a-oracle-1", "a-nop-1", "a-mine-opus-1", "a-mine-opus-2"]


def test_an_agent_may_have_its_own_number_of_trials_and_its_own_model() -> None:
    agents = (
        AgentSpec(name="oracle", trials=3),
        AgentSpec(name="mine", llm_spec="haiku", trials=1),
        AgentSpec(name="mine", id="again"),
    )
    plan = make_plan(submission(*agents, specs=("opus",), trials=2), [case("a")])
    assert [trial.trial_id for trial in plan.trials] == [
        "a-oracle-1",
        "a-oracle-2",
        "a-oracle-3",
        "a-mine-haiku-1",
        "a-again-opus-1",
        "a-again-opus-2",
    ]
    assert plan.line == "matrix: 6 trials across 1 case"


def test_more_trials_than_a_run_may_have_are_refused_before_they_are_laid_out() -> None:
    everywhere = submission("mine", trials=10**12)
    with pytest.raises(ExperimentError, match=r"matrix\.trials: 1000000000000 for each case make 2000000000000 trials"):
        make_plan(everywhere, [case("a"), case("b")])
    of_one = submission("mine", AgentSpec(name="other", trials=10**6))
    with pytest.raises(ExperimentError, match=r"matrix\.agents\[1\]\.trials: 1000000 for each case make 1000001"):
        make_plan(of_one, [case("a")])
    (problem,) = id_problems(of_one, [case("a")], deterministic=[False, False])
    assert "a run has at most 1000000" in problem.message


def test_where_everything_runs_once_nothing_is_said_of_it() -> None:
    assert make_plan(submission("oracle"), [case("a")]).line == "matrix: 1 trial across 1 case"


def test_a_configured_command_wins_over_a_plugin_and_that_is_said() -> None:
    of = submission("nop", "mine", "typoo", trials=2, commands=("agent_nop", "agent_mine", "agent_typo"))
    kinds = agent_kinds(of)
    assert [kind.kind for kind in kinds] == ["command", "command", "unknown"]
    assert kinds[2].near == "typo"
    plan = make_plan(of, [case("a")])
    assert len(plan.notices) == 1
    assert plan.notices[0].startswith("agent nop: the command agent_nop is used, not the installed plugin ")
    assert len(plan.trials) == 6


def test_an_agent_whose_options_are_wrong_has_a_problem() -> None:
    [kind] = agent_kinds(submission(AgentSpec(name="nop", options={"x": 1})))
    assert kind.kind == "plugin"
    assert kind.problem is not None
    assert "matrix.agents[0]" in kind.problem


def test_two_cases_with_one_name_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text(
        "kind: Experiment\nname: n\ncases:\n- {path: a/x}\n- {path: b/x}\nmatrix:\n  agents: [oracle, oracle]\n"
    )
    with pytest.raises(ExperimentError) as caught:
        make_plan(load(file), [case("x", "a/x"), case("x", "b/x")])
    told = [str(problem) for problem in caught.value.problems]
    assert any(f"{file}:4: cases" in text or f"{file}:3: cases" in text for text in told), told
    assert any(
        "'a/x' and 'b/x' would have trials with one id, x-oracle-1; give one of them an `id`" in text for text in told
    )
    assert any("the agents 'oracle' and 'oracle'" in text for text in told)
    assert len(told) == 2


def test_names_that_only_meet_in_an_id_are_an_error_too() -> None:
    with pytest.raises(ExperimentError, match="would have trials with one id, a-b-c-1"):
        make_plan(submission("c", "b-c"), [case("a-b"), case("a")])


def test_names_that_a_disk_may_not_tell_apart_are_an_error_too() -> None:
    with pytest.raises(ExperimentError, match="ids that differ in case only, Foo-oracle-1 and foo-oracle-1; give one"):
        make_plan(submission("oracle"), [case("Foo"), case("foo")])
    with pytest.raises(ExperimentError, match="differ in case only"):
        make_plan(submission("A", "a"), [case("x")])


def test_one_name_at_two_commits_is_told_apart_by_where_it_is_from() -> None:
    cases = [
        Case(name="x", label="x", source="git", dataset="harbor", instance={}, pin={"repo": "r", "ref": ref})
        for ref in ("v1", "v2")
    ]
    with pytest.raises(ExperimentError, match=r"'x' \(r at v1\) and 'x' \(r at v2\)"):
        make_plan(submission("oracle"), cases)


NAMES = st.text(min_size=1, max_size=12)
MATRIX = st.tuples(
    st.lists(NAMES, min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from(["opus", "sonnet", "haiku"]), max_size=3, unique=True),
    st.integers(1, 3),
)


@given(st.lists(NAMES, min_size=1, max_size=4, unique=True), MATRIX)
def test_the_same_inputs_give_the_same_ids_all_different_and_safe(
    cases: list[str], matrix: tuple[list[str], list[str], int]
) -> None:
    agents, specs, trials = matrix
    of = submission(*agents, specs=tuple(specs), trials=trials)
    once = [False] * len(agents)
    try:
        plan = make_plan(of, [case(name) for name in cases], deterministic=once)
    except ExperimentError:
        # Names that meet in an id are refused, as often as they are tried.
        with pytest.raises(ExperimentError):
            make_plan(of, [case(name) for name in cases], deterministic=once)
        return
    found = [trial.trial_id for trial in plan.trials]
    assert found == [t.trial_id for t in make_plan(of, [case(name) for name in cases], deterministic=once).trials]
    assert (
        len(found) == len({text.casefold() for text in found}) == len(cases) * len(agents) * max(1, len(specs)) * trials
    )
    assert all(slug(text, longest=240).startswith(text[:30]) and "/" not in text and len(text) < 250 for text in found)


@given(st.data())
def test_a_larger_matrix_keeps_every_trial_of_the_smaller_one(data: st.DataObject) -> None:
    names = ["case-a", "case-b", "case-c", "agent-x", "agent-y"]
    small_cases = data.draw(st.lists(st.sampled_from(names[:3]), min_size=1, unique=True))
    small_agents = data.draw(st.lists(st.sampled_from([*names[3:], "oracle"]), min_size=1, unique=True))
    small_specs = data.draw(st.lists(st.sampled_from(["opus", "sonnet"]), min_size=1, unique=True))
    trials, more = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 3))
    large_cases = [*small_cases, *(name for name in names[:3] if name not in small_cases)]
    large_agents = [*small_agents, *(name for name in (*names[3:], "oracle") if name not in small_agents)]
    small = ids(*small_cases, of=submission(*small_agents, specs=tuple(small_specs), trials=trials))
    large = ids(*large_cases, of=submission(*large_agents, specs=("opus", "sonnet"), trials=trials + more))
    assert set(small) <= set(large)


def test_a_part_of_the_cases_is_chosen_by_name_or_label() -> None:
    cases = [case("alpha"), case("beta"), case("beast")]
    assert [c.name for c in select_cases(cases, patterns=["be*"], limit=1)] == ["beta"]
    assert [c.name for c in select_cases(cases, patterns=["cases/alpha", "beast"])] == ["alpha", "beast"]
    assert len(select_cases(cases)) == 3
    with pytest.raises(UsageError, match=r"--case alhpa: no case matches\n.*'alpha'"):
        select_cases(cases, patterns=["beta", "alhpa"])
