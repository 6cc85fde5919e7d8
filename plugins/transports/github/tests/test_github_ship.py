"""Shipping into real repositories of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from github_shipping import ship, tree

from agentix.api import ShipRefused, StepContext, load
from agentix.plugins.transports.github import Github
from agentix.testing import TransportCase, TransportContract

pytestmark = pytest.mark.anyio

Make = Callable[..., StepContext]
Run = Callable[..., str]
Content = Callable[..., Mapping[str, bytes]]


class TestContract(TransportContract):
    @pytest.fixture(autouse=True)
    def repository(self, checkout: Path) -> None:
        self.checkout = checkout

    def plugin(self) -> Github:
        return Github()

    def case(self) -> TransportCase:
        return TransportCase(inputs={"dest": "jobs/x", "repo": str(self.checkout)}, tools=("git",))


def test_it_is_found_by_its_name() -> None:
    assert isinstance(load("transport", "github"), Github)


@pytest.mark.parametrize("way", ["checkout", "address"])
async def test_every_file_arrives_byte_for_byte(
    way: str, bare: Path, checkout: Path, finished: Path, context: Make, content: Content, git: Run
) -> None:
    said: list[str] = []
    before = content(bare)
    ctx = context(said)
    receipt = await ship(finished, checkout if way == "checkout" else f"file://{bare}", ctx)
    assert not os.listdir(ctx.work_dir)
    files = tree(finished)
    assert content(bare, "jobs/nightly/r1") == files  # ignored ones and line ends too
    assert {**content(bare), **before} == content(bare)
    assert (receipt.files, receipt.bytes) == (len(files), sum(map(len, files.values())))
    assert receipt.destination.endswith("bare.git main:jobs/nightly/r1")
    assert receipt.details["commit"] == git("rev-parse", "main", cwd=bare).strip()
    assert said[0].endswith(
        f"{len(files)} files with {receipt.bytes} bytes, {len(files)} new, 0 changed, 0 already there"
    )
    assert git("log", "-1", "--format=%an %ae %s %P", "main", cwd=bare).split(" ")[:3] == [
        "Some",
        "Body",
        "body@example.com",
    ]
    assert git("log", "-1", "--format=%s", "main", cwd=bare) == "Add nightly r1 to jobs/nightly/r1\n"
    modes = git("ls-tree", "main", "jobs/nightly/r1/run.sh", "jobs/nightly/r1/plain.txt", cwd=bare)
    assert [line.split()[0] for line in modes.splitlines()] == ["100644", "100755"]


@pytest.mark.parametrize("way", ["checkout", "address"])
async def test_the_same_again_makes_no_commit_and_a_change_makes_one(
    way: str, bare: Path, checkout: Path, finished: Path, context: Make, content: Content, git: Run
) -> None:
    repo = checkout if way == "checkout" else f"file://{bare}"
    first = await ship(finished, repo, context())
    said: list[str] = []
    again = await ship(finished, repo, context(said))
    assert again.details == {**first.details, "sent": 0, "unchanged": first.files}
    assert git("rev-list", "--count", "main", cwd=bare) == "2\n"
    assert "0 new, 0 changed" in said[0]
    (finished / "plain.txt").write_text("another")
    (finished / "run.sh").chmod(0o644)
    (finished / "empty").unlink()
    third = await ship(finished, repo, context(), message="Once more")
    assert third.details["sent"] == 2
    assert git("log", "-1", "--format=%s", "main", cwd=bare) == "Once more\n"
    assert content(bare, "jobs/nightly/r1") == {**tree(finished), "empty": b""}  # nothing is taken away


async def test_a_dirty_checkout_is_left_as_it_is(
    bare: Path, checkout: Path, finished: Path, context: Make, git: Run, untouched: Any
) -> None:
    git("checkout", "-q", "-b", "mine", cwd=checkout)
    (checkout / "committed.txt").write_text("not pushed")
    git("add", "-A", cwd=checkout)
    git("commit", "-q", "-m", "mine alone", cwd=checkout)
    git("checkout", "-q", "main", cwd=checkout)
    (checkout / "README.md").write_text("changed")
    (checkout / "staged.txt").write_text("staged")
    git("add", "staged.txt", cwd=checkout)
    (checkout / "jobs/nightly").mkdir()
    (checkout / "jobs/nightly/r1").write_text("untracked, and a file where a directory is to be")
    (checkout / ".git/hooks/pre-push").write_text("#!/bin/sh\ntouch ran; exit 1\n")
    (checkout / ".git/hooks/pre-push").chmod(0o755)
    before = untouched(checkout)
    await ship(finished, checkout, context())
    assert untouched(checkout) == before
    assert git("rev-list", "--count", "main", cwd=bare) == "2\n"
    git("fsck", "--strict", cwd=checkout)
    git("fsck", "--strict", cwd=bare)


async def test_what_others_have_pushed_since_stays(
    bare: Path,
    checkout: Path,
    tmp_path: Path,
    finished: Path,
    context: Make,
    content: Content,
    git: Run,
    untouched: Any,
) -> None:
    seed = tmp_path / "seed"
    (seed / "jobs/theirs.txt").write_text("theirs")
    git("add", "-A", cwd=seed)
    git("commit", "-q", "-m", "theirs", cwd=seed)
    git("push", "-q", "origin", "HEAD:main", cwd=seed)
    before = untouched(checkout)
    await ship(finished, checkout, context())
    assert content(bare)["jobs/theirs.txt"] == b"theirs"
    assert content(bare, "jobs/nightly/r1") == tree(finished)
    assert untouched(checkout) == before


async def test_from_a_shallow_checkout_and_from_a_worktree(
    bare: Path,
    checkout: Path,
    tmp_path: Path,
    finished: Path,
    context: Make,
    content: Content,
    git: Run,
    untouched: Any,
) -> None:
    (tmp_path / "seed/more").write_text("more")
    git("add", "-A", cwd=tmp_path / "seed")
    git("commit", "-q", "-m", "second", cwd=tmp_path / "seed")
    git("push", "-q", "origin", "HEAD:main", cwd=tmp_path / "seed")
    shallow = tmp_path / "shallow"
    git("clone", "-q", "--depth=1", f"file://{bare}", shallow, cwd=tmp_path)
    before = untouched(shallow)
    await ship(finished, shallow, context(), dest="jobs/one")
    assert untouched(shallow) == before
    tree_of = tmp_path / "a:worktree"
    git("worktree", "add", "-q", "-b", "topic", str(tree_of), cwd=checkout)
    await ship(finished, tree_of, context(), dest="jobs/two", branch="main")
    assert content(bare, "jobs/one") == content(bare, "jobs/two") == tree(finished)


async def test_the_directory_that_it_runs_in_is_the_default(
    bare: Path,
    checkout: Path,
    finished: Path,
    context: Make,
    content: Content,
    monkeypatch: pytest.MonkeyPatch,
    git: Run,
) -> None:
    git("remote", "set-url", "origin", "../bare.git", cwd=checkout)  # relative to the top of the checkout
    monkeypatch.chdir(checkout / "jobs")
    transport = Github()
    await transport.ship(finished / "plain.txt", transport.Inputs(dest="jobs/file"), context())
    assert content(bare, "jobs/file") == {"plain.txt": (finished / "plain.txt").read_bytes()}


async def test_a_branch_that_is_not_there_begins_at_the_default_one(
    bare: Path, finished: Path, context: Make, content: Content, git: Run
) -> None:
    receipt = await ship(finished, f"file://{bare}", context(), branch="runs/r1")
    assert receipt.details["branch"] == "runs/r1"
    assert content(bare, branch="runs/r1")["README.md"] == b"what it is\n"
    assert git("rev-list", "--count", "main", cwd=bare) == "1\n"
    same = await ship(finished, f"file://{bare}", context(), branch="runs/r1")
    assert same.details["sent"] == 0


async def test_an_empty_repository_gets_its_first_commit(
    tmp_path: Path, machine: Path, finished: Path, context: Make, content: Content, git: Run
) -> None:
    empty = tmp_path / "empty.git"
    git("init", "-q", "--bare", str(empty), cwd=tmp_path)
    assert (await ship(finished, f"file://{empty}", context())).details["branch"] == "main"
    assert content(empty, "jobs/nightly/r1") == tree(finished)
    git("symbolic-ref", "HEAD", "refs/heads/other", cwd=empty)  # as where nobody has set a default branch
    assert (await ship(finished, f"file://{empty}", context())).details["sent"] == 0


async def test_everybody_who_pushes_at_once_arrives(
    bare: Path, checkout: Path, tmp_path: Path, finished: Path, context: Make, content: Content, git: Run
) -> None:
    async def one(number: int) -> None:
        work = tmp_path / f"work{number}"
        work.mkdir()
        await ship(finished, checkout, context(work_dir=work), dest=f"jobs/{number}")

    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(one, number)
    assert git("rev-list", "--count", "main", cwd=bare) == "5\n"
    assert all(content(bare, f"jobs/{number}") == tree(finished) for number in range(4))


async def test_other_contents_pushed_at_the_same_time_are_not_replaced(
    bare: Path, checkout: Path, tmp_path: Path, finished: Path, context: Make, content: Content, git: Run
) -> None:
    # The first push finds that somebody else was faster, and has put something into the same place.
    seed = tmp_path / "seed"
    (seed / "jobs/nightly/r1").mkdir(parents=True)
    (seed / "jobs/nightly/r1/plain.txt").write_text("theirs")
    git("add", "-A", cwd=seed)
    git("commit", "-q", "-m", "theirs", cwd=seed)
    git("push", "-q", "origin", "HEAD:theirs", cwd=seed)
    hook = bare / "hooks/pre-receive"
    moved = "env -u GIT_QUARANTINE_PATH git update-ref refs/heads/main refs/heads/theirs"
    hook.write_text(f"#!/bin/sh\n{moved}\nrm -f hooks/pre-receive\n")
    hook.chmod(0o755)
    with pytest.raises(ShipRefused, match=r"other contents of 1 of the files.*plain\.txt"):
        await ship(finished, checkout, context())
    assert content(bare, "jobs/nightly/r1") == {"plain.txt": b"theirs"}
