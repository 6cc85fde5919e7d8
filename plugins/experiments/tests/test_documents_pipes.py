"""Files that are named and are none: nobody waits for who may write to them."""

from __future__ import annotations

import os

import pytest

from agentix.plugins.experiments.commands import Command, CommandRefused, check_commands, check_pins
from agentix.plugins.experiments.documents import ExperimentError, load
from agentix.plugins.experiments.steps.fingerprint import file_hashes


def test_a_pipe_is_not_included(lab) -> None:
    os.mkfifo(lab.root / "pipe")
    file = lab.file("---\nkind: Commands\ninclude: [pipe]\n---\nmatrix: {agents: [oracle]}\n")
    with pytest.raises(ExperimentError, match="pipe cannot be read: is no plain file"):
        load(file)


def test_a_pipe_and_a_device_are_no_commands(lab) -> None:
    pipe = lab.root / "pipe"
    os.mkfifo(pipe, 0o755)
    command = Command(name="c", form="uses", file=pipe, origin=lab.root / "f.yaml")
    (found,) = check_commands({"c": command})
    assert found.message == f"{pipe} is no plain file"
    assert command.fingerprint()
    for file in (pipe, "/dev/zero"):
        pinned = Command(name="c", form="uses", file=lab.root / file, sha256="0" * 64, origin=lab.root / "f.yaml")
        with pytest.raises(CommandRefused, match="cannot be read"):
            check_pins({"c": pinned})


def test_an_input_that_names_a_directory_without_a_content_counts_as_its_text(lab) -> None:
    os.mkfifo(lab.root / "cases/a/pipe")
    assert file_hashes({"place": str(lab.root / "cases/a"), "file": str(lab.root / "cases/a/pipe")}) == {}
