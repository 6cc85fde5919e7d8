"""Shipping with the real `hf` to a hub on the loopback: how much is asked of it, and what arrives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from fake_hub import Repo, Wrong

from agentix.api import Scope, ShipRefused
from agentix.plugins.transports.hf import HfTransport
from agentix.testing import TransportCase, TransportContract

pytestmark = pytest.mark.real

FILES = {"README.md": 21, "data/all.tar": 7000, "data/rows.jsonl": 16}


@pytest.mark.anyio
async def test_one_commit_holds_everything_and_again_sends_nothing(desk: Any) -> None:
    receipt = await desk.ship()
    assert desk.repo.paths() == FILES
    assert desk.repo.private
    assert desk.repo.messages == ["Add my-exp/r1"]
    assert (receipt.files, receipt.bytes) == (3, 7037)
    assert receipt.destination == f"{desk.hub.address}/datasets/org/name/tree/main"
    assert receipt.details["commits"] == [receipt.details["head"]]
    [told] = desk.said
    assert told == "hf: 3 files, 7.0 kB -> dataset org/name (new, private), its root, in 1 commit"
    asked = len(desk.hub.asked)
    assert asked <= 15
    again = await desk.ship()
    assert (again.files, again.bytes, again.details["commits"]) == (3, 7037, [])
    assert (desk.hub.count("commit"), desk.hub.count("put")) == (1, 1)
    assert len(desk.hub.asked) - asked <= 7


@pytest.mark.anyio
async def test_only_what_changed_is_sent(desk: Any) -> None:
    await desk.ship()
    (desk.source / "data" / "rows.jsonl").write_text("{}\n")
    receipt = await desk.ship(message="second\nline")
    assert desk.repo.messages == ["Add my-exp/r1", "second line"]
    assert desk.repo.paths() == FILES | {"data/rows.jsonl": 3}
    assert desk.hub.count("put") == 1
    assert len(receipt.details["commits"]) == 1


@pytest.mark.anyio
async def test_a_trial_goes_into_a_folder_of_its_own_and_its_archive_beside(desk: Any) -> None:
    ctx = desk.context(scope=Scope.PER_TRIAL, subject={"trial_id": "a-oracle-1"})
    receipt = await desk.ship(desk.source / "data", ctx=ctx)
    await desk.ship(desk.source / "data" / "all.tar", ctx=ctx)
    assert set(desk.repo.paths()) == {
        f"my-exp/r1/{name}" for name in ("a-oracle-1/all.tar", "a-oracle-1/rows.jsonl", "all.tar")
    }
    assert receipt.destination.endswith("/tree/main/my-exp/r1/a-oracle-1")
    assert desk.repo.messages[0] == "Add my-exp/r1/a-oracle-1"


@pytest.mark.anyio
async def test_a_branch_a_folder_and_a_kind_are_as_given(desk: Any) -> None:
    receipt = await desk.ship(repo_type="model", revision="runs", path_in_repo="-x/y", private=False)
    repo = desk.hub.repos["model org/name"]
    assert not repo.private
    assert repo.paths() == {}
    assert repo.paths("runs") == {f"-x/y/{name}": size for name, size in FILES.items()}
    assert receipt.destination == f"{desk.hub.address}/org/name/tree/runs/-x/y"


@pytest.mark.anyio
async def test_a_public_repository_is_refused_unless_that_is_meant(desk: Any) -> None:
    desk.hub.repos["dataset org/name"] = Repo(private=False)
    with pytest.raises(ShipRefused, match="is public; write private: false"):
        await desk.ship()
    assert desk.hub.count("create") == 0
    await desk.ship(private=False)
    assert desk.repo.paths() == FILES


@pytest.mark.anyio
async def test_a_repository_that_is_not_to_be_made_has_to_be_there(desk: Any) -> None:
    with pytest.raises(ShipRefused, match="there is no dataset org/name"):
        await desk.ship(create=False)
    assert desk.hub.repos == {}
    desk.hub.repos["dataset org/name"] = Repo(private=True)
    await desk.ship(create=False)
    assert desk.repo.paths() == FILES


@pytest.mark.anyio
async def test_a_breach_is_told_before_the_hub_is_asked_anything(desk: Any) -> None:
    (desk.source / "link").symlink_to("README.md")
    with pytest.raises(ShipRefused, match="'link' is neither a file"):
        await desk.ship()
    assert desk.hub.asked == []


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # half a minute of the machine's time
async def test_many_small_files_are_few_commits(desk: Any) -> None:
    for n in range(12_000):
        path = desk.source / f"{n // 1000:02}" / f"{n}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'{{"n": {n}}}')
    receipt = await desk.ship()
    assert len(desk.repo.paths()) == receipt.files == 12_003
    assert len(receipt.details["commits"]) == desk.hub.count("commit") == 13
    assert desk.repo.messages[:2] == ["Add my-exp/r1 (part 1)", "Add my-exp/r1 (part 2)"]
    assert desk.hub.count("preupload") == 12 * 4 + 1 + 47
    assert list((desk.root / "work").iterdir()) == []


@pytest.mark.anyio
async def test_two_ships_at_once_to_a_new_repository_both_arrive(desk: Any) -> None:
    desk.hub.will("commit", Wrong(status=412, error="A commit has happened since. Please refresh and try again."))
    (desk.root / "work2").mkdir()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: desk.ship(path_in_repo="one"))
        tasks.start_soon(lambda: desk.ship(path_in_repo="two", ctx=desk.context(work_dir=desk.root / "work2")))
    assert desk.repo.paths() == {f"{folder}/{name}": size for folder in ("one", "two") for name, size in FILES.items()}
    assert len(desk.repo.messages) == 2


@pytest.mark.anyio
async def test_without_the_program_it_is_told_ahead(desk: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    transport = HfTransport()
    inputs = transport.Inputs(dest="org/name")
    assert list(transport.check(inputs)) == []
    monkeypatch.setenv("PATH", str(tmp_path))
    [told] = transport.check(inputs)
    assert "pip install huggingface_hub" in told
    with pytest.raises(ShipRefused, match="there is no program hf"):
        await desk.ship()


@pytest.mark.anyio
async def test_where_it_would_go_is_where_it_goes(desk: Any) -> None:
    inputs = HfTransport.Inputs(dest="org/name", path_in_repo="some/where", revision="runs")
    told = HfTransport().destination(desk.source, inputs, desk.context())
    receipt = await desk.ship(path_in_repo="some/where", revision="runs")
    assert told == receipt.destination and told.endswith("/datasets/org/name/tree/runs/some/where")


def test_a_login_that_is_missing_is_told_ahead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, desk: Any) -> None:
    for name in ("HF_ENDPOINT", "HF_TOKEN", "HF_TOKEN_PATH", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    inputs = HfTransport.Inputs(dest="org/name")
    (told,) = HfTransport().check(inputs)
    assert "hf auth login" in told
    (tmp_path / ".cache/huggingface").mkdir(parents=True)
    (tmp_path / ".cache/huggingface/token").write_text("hf_x")
    assert list(HfTransport().check(inputs)) == []
    monkeypatch.setenv("HF_HOME", str(tmp_path / "other"))
    assert len(list(HfTransport().check(inputs))) == 1
    monkeypatch.setenv("HF_TOKEN", "hf_y")
    assert list(HfTransport().check(inputs)) == []


class TestHf(TransportContract):
    @pytest.fixture(autouse=True)
    def _hub(self, desk: Any) -> None:
        """The contract is checked against the hub on the loopback."""

    def plugin(self) -> object:
        return HfTransport()

    def case(self) -> TransportCase:
        return TransportCase(inputs={"dest": "org/name"}, tools=("hf",))
