"""A hub that is busy, loses answers or files, refuses, or says nothing at all."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from fake_hub import Wrong

from agentix.api import ShipError, ShipRefused

pytestmark = [pytest.mark.anyio, pytest.mark.real]

FILES = {"README.md": 21, "data/all.tar": 7000, "data/rows.jsonl": 16}
LIMITED = {"RateLimit": '"api";r=0;t=37', "RateLimit-Policy": '"fixed window";"api";q=500;w=300'}
SOON = {"Retry-After": "0"}


def passing(error: BaseException) -> bool:
    return isinstance(error, ShipError) and not isinstance(error, ShipRefused)


async def test_a_commit_that_is_limited_is_made_after_the_time_that_the_hub_told(desk: Any) -> None:
    desk.hub.will("commit", Wrong(status=429, headers=LIMITED), Wrong(status=429, headers=LIMITED))
    await desk.ship()
    assert desk.repo.paths() == FILES
    assert len(desk.repo.messages) == 1
    assert [38 <= wait <= 39 for wait in desk.waits] == [True, True]
    assert any("Retry after 37 seconds" in line for line in desk.said)


async def test_a_limit_without_a_time_is_waited_for_longer_each_time(desk: Any) -> None:
    desk.hub.will("commit", *[Wrong(status=429, headers={"Retry-After": "9"})] * 3)
    await desk.ship()
    first, second, third = desk.waits
    assert 15 <= first < 19 < 30 <= second < 38 < 60 <= third < 75
    assert len(desk.repo.messages) == 1


async def test_hf_itself_waits_where_it_looks_and_uploads(desk: Any) -> None:
    desk.hub.will("preupload", Wrong(status=429, headers=SOON))
    desk.hub.will("put", Wrong(status=503, headers=SOON))
    await desk.ship()
    assert desk.repo.paths() == FILES
    assert desk.waits == []


async def test_a_commit_whose_answer_was_lost_is_not_made_twice(desk: Any) -> None:
    desk.hub.will("commit", Wrong(status=504, after=True))
    receipt = await desk.ship()
    assert desk.repo.paths() == FILES
    assert len(desk.repo.messages) == desk.hub.count("commit") == 1
    assert receipt.details["head"].endswith(desk.repo.branches["main"][-1])


async def test_every_third_commit_limited_and_some_answers_lost_leaves_one_commit_a_part(desk: Any) -> None:
    for n in range(3000):
        path = desk.source / f"{n // 1000:02}" / f"{n}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(str(n))
    limited, lost = Wrong(status=429, headers=LIMITED), Wrong(status=504, after=True)
    desk.hub.will("commit", lost, None, limited, lost, None)
    await desk.ship()
    assert len(desk.repo.paths()) == 3003
    assert len(desk.repo.messages) == 4
    assert desk.hub.count("commit") == 5


async def test_a_commit_over_which_the_hub_takes_too_long_is_cut(desk: Any) -> None:
    for n in range(200):
        (desk.source / "data" / f"{n}.json").write_text(str(n))
    desk.hub.will("commit", Wrong(status=504), Wrong(status=504))
    await desk.ship()
    assert len(desk.repo.paths()) == 203
    assert len(desk.repo.messages) == 2
    assert desk.hub.count("commit") == 4


async def test_a_file_that_the_hub_lost_is_noticed_and_sent_again(desk: Any) -> None:
    desk.hub.lost = ["data/rows.jsonl"]
    desk.hub.at = lambda kind: desk.hub.lost.clear() if desk.hub.count("commit") == 2 else None
    await desk.ship()
    assert desk.repo.paths() == FILES
    assert desk.repo.messages == ["Add my-exp/r1", "Add my-exp/r1 (what was missing)"]


async def test_a_hub_that_keeps_losing_a_file_is_an_error(desk: Any) -> None:
    desk.hub.lost = ["data/rows.jsonl"]
    with pytest.raises(ShipError, match="still has not all of it") as caught:
        await desk.ship()
    assert passing(caught.value)
    assert desk.hub.count("commit") == 4


async def test_files_that_the_repository_ignores_are_no_success(desk: Any) -> None:
    await desk.ship()
    desk.repo.ignored = ".log"
    (desk.source / "x.log").write_text("x")
    with pytest.raises(ShipRefused, match=r"\.gitignore of the repository"):
        await desk.ship()


@pytest.mark.parametrize(
    ("kind", "status", "word"),
    [
        ("create", 402, "402"),
        ("commit", 403, "403"),
        ("commit", 413, "413"),
        ("batch", 403, "403"),
        ("put", 403, "all.tar"),
    ],
)
async def test_a_refusal_is_told_at_once(desk: Any, kind: str, status: int, word: str) -> None:
    desk.hub.will(kind, Wrong(status=status, error="quota is used up"))
    with pytest.raises(ShipRefused, match=word):
        await desk.ship()
    assert desk.waits == []


async def test_another_owner_is_refused_with_what_the_hub_says(desk: Any) -> None:
    with pytest.raises(ShipRefused, match="You don't have the rights to create a dataset"):
        await desk.ship(dest="stranger/name")


@pytest.mark.parametrize("token", [None, "hf_wrongWRONGwrongWRONG"])
async def test_without_a_good_token_it_says_what_to_do_and_never_asks(
    desk: Any, monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    monkeypatch.setenv("HOME", str(desk.root))
    with pytest.raises(ShipRefused, match=r"HF_TOKEN, or log in with hf auth login") as caught:
        await desk.ship()
    assert "hf_wrong" not in str(caught.value)


async def test_a_hub_that_cannot_be_reached_is_tried_some_times(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(ShipError, match="Connection refused") as caught:
        await desk.ship()
    assert passing(caught.value)
    assert len(desk.waits) == 6
    assert sum(desk.waits) < 500


async def test_a_wait_that_is_too_long_is_not_begun(desk: Any) -> None:
    desk.hub.will("commit", Wrong(status=429, headers=LIMITED))
    with pytest.raises(ShipError, match="asks to wait 37 s; max_wait_s leaves 30 s") as caught:
        await desk.ship(max_wait_s=30)
    assert passing(caught.value)
    assert desk.waits == []


def running(word: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if word.encode() in line and process.name != str(os.getpid()):
            found.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return found


async def test_a_hub_that_does_not_answer_ends_at_the_timeout_with_nothing_left_running(desk: Any) -> None:
    never = threading.Event()
    desk.hub.will("commit", Wrong(status=500, until=never))
    with pytest.raises(ShipError, match="took longer than 6 s and was killed") as caught:
        await desk.ship(timeout_s=6)
    never.set()
    assert passing(caught.value)
    assert running(str(desk.source)) == []


async def test_cancelling_kills_hf_and_leaves_nothing_behind(desk: Any) -> None:
    never, reached = threading.Event(), threading.Event()
    desk.hub.at = lambda kind: reached.set() if kind == "commit" else None
    desk.hub.will("commit", Wrong(status=500, until=never))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.ship)
        await anyio.to_thread.run_sync(reached.wait, 60, abandon_on_cancel=True)
        assert running(str(desk.source)) != []
        tasks.cancel_scope.cancel()
    never.set()
    assert running(str(desk.source)) == []


async def test_the_token_is_in_no_command_line_no_line_that_is_told_and_no_file(desk: Any) -> None:
    token, lines = desk.hub.token, []
    desk.hub.at = lambda kind: lines.extend(running("org/name"))
    desk.hub.will("commit", Wrong(status=503, error=f"bad Authorization: Bearer {token}"))
    receipt = await desk.ship()
    assert any(" upload " in line for line in lines)
    assert not [line for line in lines if token in line]
    assert any("bad Authorization" in line for line in desk.said)
    assert token not in "\n".join([*desk.said, repr(receipt)])
    held = [path for path in desk.root.rglob("*") if path.is_file() and token.encode() in path.read_bytes()]
    assert held == []
