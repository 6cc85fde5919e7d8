"""Shipping with the real rclone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from agentix.api import Scope, ShipError, ShipRefused, StepContext, load
from agentix.plugins.transports.rclone import Rclone
from agentix.testing import TransportCase, TransportContract

pytestmark = [pytest.mark.anyio, pytest.mark.real]

Make = Callable[..., StepContext]


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def stats(root: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in root.rglob("*")}


async def ship(source: Path, ctx: StepContext, **inputs: Any) -> Any:
    transport = Rclone()
    return await transport.ship(source, transport.Inputs.model_validate({"dest": "here:box", **inputs}), ctx)


class TestContract(TransportContract):
    @pytest.fixture(autouse=True)
    def remote(self, here: Path) -> None:
        pass

    def plugin(self) -> Rclone:
        return Rclone()

    def case(self) -> TransportCase:
        return TransportCase(inputs={"dest": "here:box"}, tools=("rclone",))


def test_it_is_found_by_its_name() -> None:
    assert isinstance(load("transport", "rclone"), Rclone)


async def test_every_file_arrives_whatever_its_name(here: Path, finished: Path, context: Make) -> None:
    said: list[str] = []
    receipt = await ship(finished, context(said))
    files = tree(finished)
    assert tree(here / "box/nightly/r1") == files
    assert receipt.destination == "here:box/nightly/r1"
    assert (receipt.files, receipt.bytes) == (len(files), sum(map(len, files.values())))
    assert receipt.details == {"sent": 9, "unchanged": 0, "verified": "checksum", "compared_by_size": 0}
    assert said == [f"to here:box/nightly/r1: 9 files with {receipt.bytes} bytes, 9 new, 0 changed, 0 already there"]


async def test_the_same_again_sends_nothing_and_a_change_is_sent(here: Path, finished: Path, context: Make) -> None:
    await ship(finished, context())
    before = stats(here)
    said: list[str] = []
    receipt = await ship(finished, context(said))
    assert receipt.details["sent"] == 0 and receipt.files == 9
    assert "0 new, 0 changed, 9 already there" in said[0]
    assert stats(here) == before
    changed = finished / "plain.txt"
    about = changed.stat()
    changed.write_bytes(changed.read_bytes().swapcase())
    os.utime(changed, ns=(about.st_atime_ns, about.st_mtime_ns))  # same size, same time
    receipt = await ship(finished, context())
    assert receipt.details["sent"] == 1
    assert tree(here / "box/nightly/r1") == tree(finished)


async def test_nothing_that_others_put_there_is_taken_away(here: Path, finished: Path, context: Make) -> None:
    other = here / "box/nightly/r1/other.txt"
    other.parent.mkdir(parents=True)
    other.write_text("theirs")
    await ship(finished, context())
    assert other.read_text() == "theirs"


async def test_a_file_and_a_trial_have_places_of_their_own(here: Path, finished: Path, context: Make) -> None:
    ctx = context(scope=Scope.PER_TRIAL, subject={"trial_id": "case-oracle-1"})
    receipt = await ship(finished / "-rf", ctx, dest="here:")
    assert (receipt.destination, receipt.files) == ("here:nightly/r1/case-oracle-1", 1)
    assert tree(here) == {"nightly/r1/case-oracle-1/-rf": (finished / "-rf").read_bytes()}


async def test_dest_itself_where_it_is_asked_for(here: Path, finished: Path, context: Make) -> None:
    receipt = await ship(finished / "plain.txt", context(), dest="here:a/b", exact=True)
    assert receipt.destination == "here:a/b"
    assert list(tree(here)) == ["a/b/plain.txt"]


async def test_a_directory_without_files_is_said_to_be_empty(here: Path, tmp_path: Path, context: Make) -> None:
    (tmp_path / "hollow" / "in").mkdir(parents=True)
    receipt = await ship(tmp_path / "hollow", context())
    assert (receipt.files, receipt.bytes) == (0, 0) and not stats(here)


async def test_links_are_refused_and_not_followed(here: Path, finished: Path, context: Make) -> None:
    (finished / "deep/link").symlink_to("/etc/passwd")
    with pytest.raises(ShipRefused, match="deep/link is no plain file"):
        await ship(finished, context())
    (finished / "deep/link").unlink()
    (finished / "etc").symlink_to("/etc")
    with pytest.raises(ShipRefused, match="etc is no plain file"):
        await ship(finished, context())
    assert not stats(here)


async def test_what_is_not_there_is_refused(here: Path, tmp_path: Path, context: Make) -> None:
    with pytest.raises(ShipRefused, match="nothing to send"):
        await ship(tmp_path / "nosuch", context())


async def test_an_unknown_remote_is_refused_in_words(here: Path, finished: Path, context: Make) -> None:
    with pytest.raises(ShipRefused, match=r"didn't find section in config file \(\"their\"\).*rclone config"):
        await ship(finished, context(), dest="their:box")


async def test_filters_in_the_environment_leave_nothing_out(
    here: Path, finished: Path, context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("EXCLUDE", "*.txt"), ("DRY_RUN", "true"), ("MAX_SIZE", "5"), ("COPY_LINKS", "true")):
        monkeypatch.setenv(f"RCLONE_{name}", value)
    await ship(finished, context())
    assert tree(here / "box/nightly/r1") == tree(finished)


async def test_a_filter_of_the_configuration_is_no_arrival(
    here: Path, finished: Path, context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RCLONE_CONFIG_HERE_DESCRIPTION", "x")
    wrapper = finished.parent / "bin" / "rclone"
    wrapper.parent.mkdir()
    real = Path(sys.executable).with_name("rclone")
    wrapper.write_text(f'#!/bin/sh\nRCLONE_EXCLUDE="*.txt" exec {real} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    with pytest.raises(ShipError, match=r"only 8 of the 9 files.*a filter"):
        await ship(finished, context())


async def test_a_locked_configuration_fails_at_once(
    here: Path, finished: Path, context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = anyio.Path(os.environ["RCLONE_CONFIG"])
    await config.write_text("[box]\ntype = local\n")
    await anyio.run_process(["rclone", "config", "encryption", "set", "--password-command", "echo opensesame"])
    assert "RCLONE_ENCRYPT" in await config.read_text()
    with anyio.fail_after(60), pytest.raises(ShipRefused, match=r"RCLONE_CONFIG_PASS or RCLONE_PASSWORD_COMMAND"):
        await ship(finished, context())
    monkeypatch.setenv("RCLONE_CONFIG_PASS", "opensesame")
    assert (await ship(finished, context())).files == 9


async def test_a_key_that_rclone_tells_is_masked(
    here: Path, finished: Path, context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RCLONE_CONFIG_DAV_TYPE", "webdav")
    monkeypatch.setenv("RCLONE_CONFIG_DAV_URL", "http://me:opensesame@127.0.0.1:9/opensesame")
    monkeypatch.setenv("RCLONE_CONFIG_DAV_BEARER_TOKEN", "opensesame")
    monkeypatch.setenv("RCLONE_LOW_LEVEL_RETRIES", "1")
    with pytest.raises(ShipError, match="connection refused") as caught:
        await ship(finished, context(), dest="dav:box")
    assert "opensesame" not in str(caught.value) and not isinstance(caught.value, ShipRefused)


async def test_at_the_timeout_it_may_come_later(here: Path, finished: Path, context: Make) -> None:
    with pytest.raises(ShipError, match="stopped at the timeout") as caught:
        await ship(finished, context(), timeout_s=0.001)
    assert not isinstance(caught.value, ShipRefused)


async def test_a_copy_that_was_killed_is_finished_by_the_next(
    here: Path, tmp_path: Path, context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "big"
    source.mkdir()
    for number in range(4):
        (source / f"{number}.bin").write_bytes(os.urandom(1 << 20))
    monkeypatch.setenv("RCLONE_BWLIMIT", "32k")  # two minutes

    async def killed() -> None:
        async with anyio.create_task_group() as group:

            async def go() -> None:
                await ship(source, context())
                raise AssertionError("it was done before it was killed")

            group.start_soon(go)
            with anyio.fail_after(60):
                while not [path async for path in anyio.Path(here).rglob("*.partial")]:
                    await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    await killed()
    assert tree(here / "box/nightly/r1") != tree(source)
    monkeypatch.delenv("RCLONE_BWLIMIT")
    receipt = await ship(source, context())
    assert receipt.files == 4
    assert tree(here / "box/nightly/r1") == tree(source)  # and nothing half sent is left
