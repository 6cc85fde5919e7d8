from __future__ import annotations

from agentix.cli.budget import TrialQueue
from agentix.models import Trial
from agentix.records import Record, UsageRecord


def trials(count):
    return [Trial(trial_id=f"t{number}", instance={"instance_id": f"t{number}"}) for number in range(count)]


def record(trial, cost):
    return Record(trial_id=trial.trial_id, case="c", usage=None if cost is None else UsageRecord(cost_usd=cost))


def test_without_a_budget_everything_is_handed_out():
    assert len(list(TrialQueue(trials(5)).batch())) == 5


def test_while_the_cost_is_unknown_one_trial_runs_alone():
    queue = TrialQueue(trials(5), max_cost_usd=1.0)
    first = list(queue.batch())
    assert len(first) == 1
    queue.finished(record(first[0], 0.25))
    assert len(list(queue.batch())) == 3
    assert queue.stopped is None


def test_running_trials_are_counted_with_their_own_limit():
    queue = TrialQueue(trials(5), max_cost_usd=1.0, max_trial_cost_usd=0.4)
    assert len(list(queue.batch())) == 2


def test_it_stops_when_nothing_runs_and_too_little_is_left():
    queue = TrialQueue(trials(5), max_cost_usd=1.0, max_trial_cost_usd=0.6)
    first = list(queue.batch())
    queue.finished(record(first[0], 0.6))
    assert list(queue.batch()) == []
    assert "--max-cost-usd" in queue.stopped
    assert len(queue) == 4


def test_what_earlier_sessions_spent_counts():
    queue = TrialQueue(trials(2), max_cost_usd=1.0, spent_usd=1.0)
    assert list(queue.batch()) == []
    assert queue.stopped


def test_trials_of_unknown_cost_do_not_count_and_are_told_apart_from_free_ones():
    queue = TrialQueue(trials(4), max_cost_usd=1.0)
    first = list(queue.batch())
    queue.finished(record(first[0], None))
    assert len(list(queue.batch())) == 3
    assert (queue.unknown, queue.spent_usd) == (1, 0.0)


def test_a_stop_ends_the_handing_out():
    queue = TrialQueue(trials(3))
    batch = queue.batch()
    next(batch)
    queue.stop("enough")
    queue.stop("later")
    assert list(batch) == []
    assert queue.stopped == "enough"


TOKENS = """
from agentix.api import AgentResult, Usage

async def agent(sandbox, instance, *, model):
    return AgentResult(patch="1", usage=Usage(input=100, output=5))
"""


def test_a_cost_that_is_unknown_is_told_although_the_tokens_are_known(toy):
    (toy.path / "tokens.py").write_text(TOKENS)
    plugins = ["--dataset", "./toy.py:Dataset", "--agent", "./tokens.py", "--provider", "./toy.py:Provider"]
    called = toy.rollout("--id", "r", "--max-cost-usd", "1", plugins=plugins)
    assert called.code == 0
    assert called.out.count("what it cost is unknown") == 1
    assert "tokens 420" in called.out
    assert "cost unknown" in called.out


def test_a_mean_that_no_mean_can_miss_is_refused(toy):
    for value in ("nan", "inf"):
        called = toy.rollout("--id", "r", "--fail-under", value)
        assert called.code == 2
        assert "--fail-under" in called.err
    assert toy.ran() == []


def test_a_limit_that_cannot_see_a_cost_says_so_once():
    queue = TrialQueue(trials(3), max_cost_usd=1.0)
    first, second, third = trials(3)
    assert queue.finished(record(first, 0.1)) is None
    assert "do not count against --max-cost-usd" in queue.finished(record(second, None))
    assert queue.finished(record(third, None)) is None


def test_the_limit_of_a_trial_says_so_only_where_tokens_without_a_price_were_used():
    queue = TrialQueue(trials(2), max_trial_cost_usd=1.0)
    first, second = trials(2)
    assert queue.finished(record(first, None)) is None
    used = Record(trial_id=second.trial_id, case="c", usage=UsageRecord(input=9, output=1))
    assert "do not count against max_cost_usd" in queue.finished(used)
    assert TrialQueue(trials(1)).finished(used) is None
