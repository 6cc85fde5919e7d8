"""Shipping into real repositories of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentix.api import ShipError, ShipRefused, StepContext, load
from agentix.plugins.transports.github import Github
from agentix.testing import TransportCase, TransportContract

pytestmark = pytest.mark.anyio

Make = Callable[..., StepContext]
Run = Callable[..., str]
Content = Callable[..., Mapping[str, bytes]]


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


async def ship(source: Path, repo: Path | str, ctx: StepContext, **inputs: Any) -> Any:
    transport = Github()
    given = {"dest": "jobs/nightly/r1", "repo": str(repo), **inputs}
    return await transport.ship(source, transport.Inputs.model_validate(given), ctx)


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


@pytest.mark.parametrize(
    ("name", "make", "words"),
    [
        ("link", lambda seed: (seed / "jobs/nightly").symlink_to("/etc"), "jobs/nightly is a link"),
        ("link at dest", lambda seed: _link(seed / "jobs/nightly/r1"), "jobs/nightly/r1 is a link"),
        ("link below", lambda seed: _link(seed / "jobs/nightly/r1/deep"), "jobs/nightly/r1/deep is a link"),
        ("link as file", lambda seed: _link(seed / "jobs/nightly/r1/plain.txt"), "plain.txt is a link"),
        ("file", lambda seed: (seed / "jobs/nightly").write_text("x"), "jobs/nightly is a file"),
        ("directory", lambda seed: (seed / "jobs/nightly/r1/plain.txt").mkdir(parents=True), "is a directory"),
    ],
)
async def test_what_stands_in_the_way_is_named(
    name: str,
    make: Any,
    words: str,
    bare: Path,
    checkout: Path,
    tmp_path: Path,
    finished: Path,
    context: Make,
    git: Run,
) -> None:
    seed = tmp_path / "seed"
    make(seed)
    for place in (seed / "jobs").rglob("*"):
        if place.is_dir() and not place.is_symlink():
            (place / "kept").touch()
    git("add", "-A", cwd=seed)
    git("commit", "-q", "-m", name, cwd=seed)
    git("push", "-q", "origin", "HEAD:main", cwd=seed)
    with pytest.raises(ShipRefused, match=words):
        await ship(finished, checkout, context())
    assert git("rev-list", "--count", "main", cwd=bare) == "2\n"


def _link(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("/etc")


async def test_a_file_that_is_too_large_is_refused_before_anything(
    bare: Path, checkout: Path, finished: Path, context: Make, git: Run, untouched: Any
) -> None:
    hook = bare / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\ntouch asked\nexit 1\n")
    hook.chmod(0o755)
    with (finished / "trajectory.json").open("wb") as large:
        large.truncate(101 << 20)
    before = untouched(checkout)
    ctx = context()
    with pytest.raises(ShipRefused, match=r"over 100 MiB: trajectory\.json \(101\.0 MiB\).*archive.*split.*LFS"):
        await ship(finished, checkout, ctx)
    assert untouched(checkout) == before
    assert not os.listdir(ctx.work_dir) and "asked" not in os.listdir(bare)


async def test_a_file_that_github_warns_of_is_told(checkout: Path, finished: Path, context: Make) -> None:
    with (finished / "trajectory.json").open("wb") as large:
        large.truncate(51 << 20)
    said: list[str] = []
    await ship(finished / "trajectory.json", checkout, context(said))
    assert "over 50 MiB" in said[1] and "trajectory.json" in said[1]


async def test_what_the_server_refuses_leaves_nothing_behind(
    bare: Path, checkout: Path, finished: Path, context: Make, untouched: Any
) -> None:
    hook = bare / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho 'GH001: Large files detected. 1 MB is the limit' >&2\nexit 1\n")
    hook.chmod(0o755)
    before = untouched(checkout)
    with pytest.raises(ShipRefused, match=r"GH001: Large files detected.*pre-receive hook declined.*Git LFS"):
        await ship(finished, checkout, context())
    assert untouched(checkout) == before


async def test_links_and_directories_of_git_are_refused(checkout: Path, finished: Path, context: Make) -> None:
    (finished / "deep/.GIT").mkdir()
    (finished / "deep/.GIT/config").touch()
    with pytest.raises(ShipRefused, match=r"a directory named \.git: deep/\.GIT/config"):
        await ship(finished, checkout, context())
    (finished / "deep/.GIT/config").unlink()
    (finished / "etc").symlink_to("/etc")
    with pytest.raises(ShipRefused, match="etc is no plain file"):
        await ship(finished, checkout, context())


async def test_names_that_git_takes_for_its_own_are_refused(checkout: Path, finished: Path, context: Make) -> None:
    (finished / ".g\u200cit").write_text("x")
    with pytest.raises(ShipRefused, match=r"takes no file of the name jobs/x/\.g"):
        await ship(finished, checkout, context(), dest="jobs/x")


async def test_a_directory_without_files_is_said_to_be_empty(
    bare: Path, checkout: Path, tmp_path: Path, context: Make, git: Run
) -> None:
    (tmp_path / "hollow").mkdir()
    assert (await ship(tmp_path / "hollow", checkout, context())).files == 0
    assert git("rev-list", "--count", "main", cwd=bare) == "1\n"


async def test_without_an_identity_it_says_what_to_do(
    bare: Path, checkout: Path, machine: Path, finished: Path, context: Make, monkeypatch: pytest.MonkeyPatch, git: Run
) -> None:
    (machine / ".gitconfig").write_text("")
    with pytest.raises(ShipRefused, match=r"git config --global user\.email"):
        await ship(finished, checkout, context())
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"):
        monkeypatch.setenv(name, "Robot")
    for name in ("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "robot@example.com")
    await ship(finished, checkout, context())
    assert git("log", "-1", "--format=%an %ce", "main", cwd=bare) == "Robot robot@example.com\n"


async def test_what_is_no_checkout_is_refused(
    tmp_path: Path, bare: Path, checkout: Path, finished: Path, context: Make, git: Run
) -> None:
    for place, words in ((tmp_path / "nosuch", "no checkout"), (tmp_path, "no checkout"), (bare, "no checkout")):
        with pytest.raises(ShipRefused, match=words):
            await ship(finished, place, context())
    git("checkout", "-q", "--detach", cwd=checkout)
    with pytest.raises(ShipRefused, match="is on no branch"):
        await ship(finished, checkout, context())
    git("checkout", "-q", "main", cwd=checkout)
    git("remote", "remove", "origin", cwd=checkout)
    with pytest.raises(ShipRefused, match="has no remote"):
        await ship(finished, checkout, context())


async def test_a_repository_that_is_not_there_is_refused(machine: Path, finished: Path, context: Make) -> None:
    with pytest.raises(ShipRefused, match="no such repository") as error:
        await ship(finished, "file:///no/such/place.git", context())
    # Not what git says to whoever types its commands.
    assert "access rights" not in str(error.value) and ".. " not in str(error.value)


async def test_a_login_in_the_address_of_a_checkout_is_refused_and_not_repeated(
    checkout: Path, finished: Path, context: Make, git: Run
) -> None:
    for login in ("me:opensesame", "ghp_opensesame"):
        git("remote", "set-url", "origin", f"https://{login}@example.com/x.git", cwd=checkout)
        with pytest.raises(ShipRefused, match=r"has a login in it.*git remote set-url origin") as caught:
            await ship(finished, checkout, context())
        assert "opensesame" not in str(caught.value)


async def test_a_missing_program_is_refused_and_told_ahead(
    checkout: Path, finished: Path, tmp_path: Path, context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ShipRefused, match="no program git on the PATH"):
        await ship(finished, checkout, context())
    (told,) = Github().check(Github.Inputs(dest="x", repo=str(tmp_path / "nosuch")))
    assert "no program git on the PATH" in told


async def test_at_the_timeout_it_may_come_later(bare: Path, checkout: Path, finished: Path, context: Make) -> None:
    hook = bare / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\nexec sleep 600\n")
    hook.chmod(0o755)
    with anyio.fail_after(60), pytest.raises(ShipError, match="stopped at the timeout") as caught:
        await ship(finished, checkout, context(), timeout_s=2)
    assert not isinstance(caught.value, ShipRefused)
