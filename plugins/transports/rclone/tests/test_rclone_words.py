"""Inputs, exit statuses and variables of the transport."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agentix.api import ExecResult, ShipError, ShipRefused, StepContext
from agentix.plugins.transports.rclone import Rclone, RcloneInputs
from agentix.plugins.transports.rclone.environment import host_env
from agentix.plugins.transports.rclone.exit_status import words

Make = Callable[..., StepContext]

_SHIM = """#!/bin/sh
cat >/dev/null
echo "$*" >>"$HOME/calls"
case $1 in
backend) echo '{"Hashes": ["md5"]}'; exit 0 ;;
copy) echo "2026/01/01 00:00:00 ERROR : rclone says $STATUS" >&2; echo sent >>"$HOME/sent"; exit STATUS ;;
esac
while [ $# -gt 0 ]; do [ "$1" = --combined ] && report=$2; shift; done
[ -e "$HOME/sent" ] && [ "$(wc -l <"$HOME/sent")" -ge COPIES ] && { echo '= one' >"$report"; exit 0; }
echo '+ one' >"$report"
echo '2026/01/01 00:00:00 NOTICE: Failed to check: 1 differences found' >&2
exit 1
"""


@pytest.fixture
def one(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    source.mkdir()
    (source / "one").write_text("1")
    return source


def shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, *, copies: int = 1) -> Path:
    """An rclone whose copying ends with a status and arrives after so many; the directory where it notes its calls."""
    program = tmp_path / "bin" / "rclone"
    program.parent.mkdir()
    text = _SHIM.replace("$STATUS", str(status)).replace("STATUS", str(status))
    program.write_text(text.replace("COPIES", str(copies)))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


async def ship(source: Path, ctx: StepContext, **inputs: Any) -> Any:
    transport = Rclone()
    return await transport.ship(source, RcloneInputs(dest="r:box", **inputs), ctx)


@pytest.mark.anyio
@pytest.mark.parametrize("status", [0, 9])
async def test_nothing_to_do_is_as_good_as_done(
    status: int, one: Path, tmp_path: Path, context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = shim(tmp_path, monkeypatch, status)
    assert (await ship(one, context(), flags=("--transfers=2",))).files == 1
    calls = (home / "calls").read_text().splitlines()
    assert [line.split()[0] for line in calls] == ["backend", "check", "copy", "check"]
    assert all("--transfers=2" in line for line in calls)
    # Of the first version that is told to do; it refuses an option that it does not know.
    options = {word.partition("=")[0] for line in calls for word in line.split() if word.startswith("--")}
    assert options <= {"--", "--transfers", "--one-way", "--download", "--combined", "--checksum", "--ignore-times"}


@pytest.mark.anyio
async def test_no_login_of_a_remote_is_on_a_command_line(
    one: Path, tmp_path: Path, context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = shim(tmp_path, monkeypatch, 0)
    program = tmp_path / "bin" / "rclone"
    program.write_text(program.read_text().replace("cat >/dev/null\n", 'cat >/dev/null\nenv >>"$HOME/seen"\n'))
    for name in ("RCLONE_CONFIG_R_PASS", "RCLONE_CONFIG_PASS", "RCLONE_CONFIG_R_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, f"canary-of-{name}")
    await ship(one, context())
    assert "canary" not in (home / "calls").read_text()
    assert (home / "seen").read_text().count("=canary-of-") == 4 * 3


@pytest.mark.anyio
@pytest.mark.parametrize("status", [0, 9])
async def test_it_is_not_believed_before_it_is_found_there(
    status: int, one: Path, tmp_path: Path, context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim(tmp_path, monkeypatch, status, copies=9)
    with pytest.raises(ShipError, match="of 1 files 1 have not arrived at r:box/nightly/r1") as caught:
        await ship(one, context())
    assert not isinstance(caught.value, ShipRefused)


@pytest.mark.anyio
async def test_what_a_remote_has_lost_is_sent_once_more(
    one: Path, tmp_path: Path, context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = shim(tmp_path, monkeypatch, 0, copies=2)
    receipt = await ship(one, context())
    assert receipt.details["sent"] == 1
    assert [line.split()[0] for line in (home / "calls").read_text().splitlines()].count("copy") == 2


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "refused", "words"),
    [
        (1, False, "it failed"),
        (2, False, "it failed"),
        (3, True, "no such directory"),
        (4, True, "no such file"),
        (5, False, "may pass"),
        (6, True, "trying again is of no use"),
        (7, True, "refused for good"),
        (8, True, "limit of what may be sent"),
        (10, True, "limit of time"),
    ],
)
async def test_every_exit_status_has_a_name(
    status: int,
    refused: bool,
    words: str,
    one: Path,
    tmp_path: Path,
    context: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shim(tmp_path, monkeypatch, status)
    with pytest.raises(ShipError, match=words) as caught:
        await ship(one, context())
    assert isinstance(caught.value, ShipRefused) is refused
    assert f"(exit status {status}): rclone says {status}" in str(caught.value)


@pytest.mark.anyio
async def test_a_missing_program_is_refused_and_told_ahead(
    one: Path, tmp_path: Path, context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ShipRefused, match="no program rclone on the PATH"):
        await ship(one, context())
    assert list(Rclone().check(RcloneInputs(dest="r:")))


@pytest.mark.parametrize(
    ("dest", "words"),
    [
        ("/mnt/disk", "names no remote"),
        ("disk/a:b", "names no remote"),
        ("", "names no remote"),
        (":s3,secret_access_key=x:bucket", r"RCLONE_CONFIG_<NAME>_TYPE"),
        (":local:/etc", r"RCLONE_CONFIG_<NAME>_TYPE"),
        ("r,pass=x:bucket", r"takes no options"),
        ("-r:bucket", "no name of a remote"),
        ("r:a/../../b", r"`\.\.`"),
        ("r:a\nb", "control characters"),
    ],
)
def test_what_is_no_named_remote_is_refused(dest: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        RcloneInputs(dest=dest)


@pytest.mark.parametrize(
    "flag", ["--config=x", "--exclude=*", "--webdav-pass=x", "--http-proxy=x", "--dump=auth", "--dry-run", "-P", "a"]
)
def test_flags_that_would_change_what_is_sent_or_tell_secrets_are_refused(flag: str) -> None:
    with pytest.raises(ValidationError, match=r"none of the flags|is written as"):
        RcloneInputs(dest="r:b", flags=(flag,))


@pytest.mark.parametrize(
    ("dest", "target"), [("r:", "r:e/1"), ("r:b", "r:b/e/1"), ("r:b/", "r:b/e/1"), ("r:/b", "r:/b/e/1")]
)
def test_the_key_goes_below_dest(dest: str, target: str) -> None:
    assert RcloneInputs(dest=dest).target("e/1") == target
    assert RcloneInputs(dest=dest, exact=True).target("e/1") == dest


def test_only_variables_that_say_where_and_over_what_are_handed_on() -> None:
    names = host_env(
        ["RCLONE_CONFIG_MY_BOX_TYPE", "RCLONE_CONFIG_my-box_TYPE", "RCLONE_EXCLUDE", "OPENAI_API_KEY", *os.environ]
    )
    assert {"RCLONE_CONFIG", "RCLONE_CONFIG_PASS", "RCLONE_CONFIG_MY_BOX_TYPE", "RCLONE_BWLIMIT", "https_proxy"} <= {
        *names
    }
    assert not {"RCLONE_EXCLUDE", "RCLONE_DRY_RUN", "RCLONE_LOG_FILE", "OPENAI_API_KEY"} & {*names}


def test_of_what_rclone_says_only_what_is_of_use_is_told() -> None:
    said = (
        'Use "rclone help flags" for to see the global flags.\n'
        '2026/01/01 00:00:00 NOTICE: Config file "/home/me/rclone.conf" not found - using defaults\n'
        "2026/01/01 00:00:00 INFO  : There was nothing to transfer\n"
        "2026/01/01 00:00:00 ERROR : Attempt 1/3 failed\n"
        "2026/01/01 00:00:00 ERROR : a: b: no space\n"
        "2026/01/01 00:00:00 Fatal error: unknown flag: --x\n"
    )
    result = ExecResult(exit_code=1, stdout=b"", stderr=said.encode())
    assert words(result) == ["a: b: no space", "Fatal error: unknown flag: --x"]
