"""What is known before anything runs: whether rclone has such a remote, and where that goes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agentix.api import StepContext
from agentix.plugins.transports.rclone import Rclone, RcloneInputs


def told(dest: str, **inputs: object) -> list[str]:
    return list(Rclone().check(RcloneInputs.model_validate({"dest": dest, **inputs})))


@pytest.fixture
def configured(tool_path: str) -> Path:
    config = Path(os.environ["RCLONE_CONFIG"])
    config.write_text("[onedrive]\ntype = memory\n\n[my-box]\ntype = memory\n")
    return config


def test_a_remote_of_the_configuration_or_of_the_environment_is_known(configured: Path, here: Path) -> None:
    assert [told(dest) for dest in ("onedrive:x", "my-box:", "here:x/y", "HERE:")] == [[], [], [], []]


def test_another_one_is_told_with_what_there_is(configured: Path) -> None:
    assert told("ondrive:x") == ["rclone has no remote ondrive; did you mean onedrive?: `rclone config` makes one"]
    assert told("zzz:") == ["rclone has no remote zzz; it has my-box, onedrive: `rclone config` makes one"]
    configured.write_text("")
    assert told("zzz:") == ["rclone has no remote zzz, nor any other: `rclone config` makes one"]


def test_a_configuration_with_a_password_that_nobody_gives_is_told(configured: Path) -> None:
    configured.write_text("# Encrypted rclone configuration File\n\nRCLONE_ENCRYPT_V0:\n" + "QUFB" * 40 + "\n")
    (problem,) = told("onedrive:x")
    assert "RCLONE_CONFIG_PASS" in problem


def test_the_destination_is_that_of_the_receipt(context: Callable[..., StepContext], tmp_path: Path) -> None:
    inputs = RcloneInputs(dest="onedrive:rollouts")
    ctx = context()
    assert Rclone().destination(tmp_path, inputs, ctx) == f"onedrive:rollouts/{ctx.key}"
