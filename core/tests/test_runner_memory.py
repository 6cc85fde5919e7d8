"""What a trial used is free as soon as it has ended, and thousands of trials are not held up by collections."""

from __future__ import annotations

import gc
import weakref
from contextlib import ExitStack
from typing import Any

import pytest

from agentix.runner import run_rollouts
from agentix.runner.full_collections import rarer
from agentix.testing.fakes import FakeAgent, FakeDataset, FakeProvider, fake_instance
from agentix.testing.scripts import Call


@pytest.mark.anyio
async def test_a_trial_leaves_nothing_that_waits_for_a_collection() -> None:
    seen: list[weakref.ref[Any]] = []

    async def solve(call: Call) -> None:
        seen.append(weakref.ref(call.sandbox))

    async with FakeProvider() as provider:
        gc.collect()
        gc.disable()
        try:
            rollouts = await run_rollouts(
                dataset=FakeDataset([fake_instance(number) for number in range(4)]),
                agent=FakeAgent(on={"solve": solve}),
                provider=provider,
                n_concurrent=2,
            )
            assert [rollout.resolved for rollout in rollouts] == [True] * 4
            assert len(seen) == 4
            assert [ref() for ref in seen] == [None] * 4
        finally:
            gc.enable()


def test_full_collections_are_as_much_rarer_as_more_trials_run() -> None:
    before = gc.get_threshold()
    with rarer(2_000):
        assert gc.get_threshold() == (*before[:2], max(200, before[2]))
        with rarer(8):
            assert gc.get_threshold() == (*before[:2], max(200, before[2]))
    assert gc.get_threshold() == before


@pytest.mark.parametrize("widths", [(2_000, 4_000), (4_000, 2_000), (3_000, 3_000), (8, 4_000)])
def test_runs_that_overlap_leave_what_the_program_had_set(widths: tuple[int, int]) -> None:
    before = gc.get_threshold()
    first, second = ExitStack(), ExitStack()
    first.enter_context(rarer(widths[0]))
    second.enter_context(rarer(widths[1]))
    assert gc.get_threshold() == (*before[:2], max(before[2], max(widths) // 10))
    first.close()
    assert gc.get_threshold() == (*before[:2], max(before[2], widths[1] // 10))
    second.close()
    assert gc.get_threshold() == before


def test_what_a_program_sets_while_runs_overlap_holds_at_once() -> None:
    before = gc.get_threshold()
    first = ExitStack()
    try:
        first.enter_context(rarer(4_000))
        with rarer(2_000):
            gc.set_threshold(123, 4, 5)
        assert gc.get_threshold() == (123, 4, 5)
        first.close()
        assert gc.get_threshold() == (123, 4, 5)
    finally:
        first.close()
        gc.set_threshold(*before)


def test_what_a_program_sets_meanwhile_stays_as_it_is() -> None:
    before = gc.get_threshold()
    try:
        with rarer(2_000):
            gc.set_threshold(123, 4, 5)
        assert gc.get_threshold() == (123, 4, 5)
    finally:
        gc.set_threshold(*before)
