"""What cannot be pushed is refused before anything is, and named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from github_shipping import ship

from agentix.api import ShipError, ShipRefused, StepContext
from agentix.plugins.transports.github import Github

pytestmark = pytest.mark.anyio

Make = Callable[..., StepContext]
Run = Callable[..., str]


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
