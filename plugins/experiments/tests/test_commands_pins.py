"""Pins, fingerprints and what stops a command before anything runs."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.api import UsageError
from agentix.plugins.experiments.commands import (
    Command,
    CommandRefused,
    CommandRunner,
    check_commands,
    check_pins,
    command_problems,
    commands_of,
    render,
)
from agentix.plugins.experiments.commands.log import Scrubber
from agentix.plugins.experiments.documents import load


def pinned(tmp_path: Path, text: str = "#!/bin/sh\necho first; basename $0\n") -> Command:
    file = tmp_path / "adapter.sh"
    file.write_text(text)
    file.chmod(0o755)
    return Command(
        name="harbor",
        form="uses",
        file=file,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        origin=tmp_path / "e.yaml",
    )


def test_a_file_that_matches_its_pin_is_taken(tmp_path: Path) -> None:
    check_pins({"harbor": pinned(tmp_path)})


def test_a_file_that_was_changed_is_refused_with_both_hashes(tmp_path: Path) -> None:
    command = pinned(tmp_path)
    assert command.file is not None
    command.file.write_text("#!/bin/sh\necho changed\n")
    with pytest.raises(CommandRefused, match=f"is pinned to {command.sha256}"):
        check_pins({"harbor": command})


def test_a_pinned_file_that_is_gone_is_refused(tmp_path: Path) -> None:
    command = pinned(tmp_path)
    assert command.file is not None
    command.file.unlink()
    with pytest.raises(CommandRefused, match="cannot be read"):
        check_pins({"harbor": command})


@pytest.mark.anyio
async def test_a_pin_is_checked_at_every_run(tmp_path: Path) -> None:
    command = pinned(tmp_path)
    assert command.file is not None
    async with CommandRunner() as runner:
        assert (await runner.run(command)).stdout == "first\nadapter.sh\n"
        original = command.file.read_text()
        command.file.write_text(original + "echo evil\n")
        with pytest.raises(CommandRefused, match="is pinned to"):
            await runner.run(command)
        command.file.write_text(original)
        assert (await runner.run(command)).stdout == "first\nadapter.sh\n"


@pytest.mark.anyio
async def test_what_runs_are_the_bytes_that_were_hashed_whatever_becomes_of_the_file(tmp_path: Path) -> None:
    """The file is exchanged all the time; what runs is the pinned text, or nothing does."""
    command = pinned(tmp_path)
    assert command.file is not None
    good, evil = command.file.read_text(), tmp_path / "evil"
    ran, refused = 0, 0
    async with CommandRunner() as runner, anyio.create_task_group() as group:

        async def exchange() -> None:
            turn = 0
            while True:
                turn += 1
                evil.write_text(good.replace("first", "evil!") if turn % 2 else good)
                evil.chmod(0o755)
                assert command.file is not None
                evil.replace(command.file)
                await anyio.lowlevel.checkpoint()

        group.start_soon(exchange)
        for _ in range(60):
            try:
                result = await runner.run(command)
            except CommandRefused:
                refused += 1
            else:
                assert result.stdout == "first\nadapter.sh\n"
                ran += 1
        group.cancel_scope.cancel()
    assert ran + refused == 60


@pytest.mark.anyio
async def test_the_private_copy_is_of_this_user_only_and_goes_away(tmp_path: Path) -> None:
    command = pinned(tmp_path, "#!/bin/sh\nrealpath $0\n")
    async with CommandRunner() as runner:
        copy = Path((await runner.run(command)).stdout.strip())
        assert copy != command.file
        assert stat.S_IMODE(os.stat(copy).st_mode) == 0o700
        assert stat.S_IMODE(os.stat(copy.parent.parent).st_mode) == 0o700
    assert not copy.parent.parent.exists()


def test_a_file_is_relative_to_the_document_that_names_it_and_problems_have_their_place(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "ops.yaml").write_text(
        "kind: Commands\nharbor: {uses: adapters/harbor.sh}\nlost: {run: [no-such-program-at-all]}\n"
    )
    (tmp_path / "lib" / "adapters").mkdir()
    adapter = tmp_path / "lib" / "adapters" / "harbor.sh"
    adapter.write_text("#!/bin/sh\n")
    file = tmp_path / "e.yaml"
    file.write_text(
        "kind: Commands\ninclude: [lib/ops.yaml]\nmine: {uses: here.sh}\n---\nkind: Experiment\nname: n\n"
        "cases: [{path: x}]\nmatrix: {agents: [oracle]}\n"
    )
    submission = load(file)
    commands = commands_of(submission)
    assert commands["harbor"].file == adapter
    found = {str(problem) for problem in command_problems(submission)}
    assert any(text.startswith(f"{file}:3: ") and "there is no file" in text for text in found), found
    assert any("ops.yaml:3: " in text and "no program 'no-such-program-at-all' on the PATH" in text for text in found)
    assert any("ops.yaml:2: " in text and "is not executable" in text for text in found)
    adapter.chmod(0o755)
    assert {problem.command for problem in check_commands(commands, names=["harbor"])} == set()


def test_a_fingerprint_follows_words_and_the_bytes_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    helper = tmp_path / "tools" / "helper.py"
    helper.parent.mkdir()
    helper.write_text("print(1)")
    uses = pinned(tmp_path)
    commands = [
        Command(name="a", form="run", argv=("python3", "tools/helper.py"), origin=tmp_path / "e"),
        Command(name="a", form="script", script="set -e; python3 tools/helper.py; ls", origin=tmp_path / "e"),
        Command(name="a", form="uses", file=uses.file, origin=tmp_path / "e"),
    ]
    before = [command.fingerprint() for command in commands]
    assert before == [command.fingerprint() for command in commands]
    assert len(set(before)) == 3
    helper.write_text("print(2)")
    assert uses.file is not None
    with uses.file.open("a") as file:
        file.write("#")
    after = [command.fingerprint() for command in commands]
    assert all(a != b for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("line", [">> FILE", "2>FILE", "> 'FILE'", "&>FILE", "| tee -a FILE", ">|FILE", "| tee FILE"])
def test_a_file_that_a_script_writes_to_is_no_part_of_it(line: str, tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    words = line.replace("FILE", str(file))
    command = Command(name="a", form="script", script=f"echo done {words}; ls", origin=tmp_path / "e")
    reading = Command(name="a", form="script", script=f"cat {file}; echo done {words}", origin=tmp_path / "e")
    before = command.fingerprint(), reading.fingerprint()
    subprocess.run(["bash", "-c", command.script], check=True, capture_output=True)
    assert file.exists()
    assert command.fingerprint() == before[0]
    assert reading.fingerprint() != before[1]


def test_a_shell_line_runs_the_same() -> None:
    command = Command(name="a", form="script", script='echo "it\'s"\necho $1', origin=Path("e"))
    assert subprocess.check_output(["sh", "-c", command.shell_line()]) == b"it's\n\n"


@pytest.mark.parametrize("template", ["{{.CaseDir}}", "{{ .CaseDir }}", "{{.CASE_DIR}}", "{{.caseDir}}"])
def test_a_variable_is_known_by_either_spelling(template: str) -> None:
    assert render(f"a{template}b", {"CASE_DIR": "/c"}) == "a/cb"
    assert render("{{.TrialID}}", {"TRIAL_ID": "t-1"}) == render("{{.TrialID}}", {"TrialID": "t-1"}) == "t-1"


@pytest.mark.parametrize("template", ["{{.Nope}}", "{{CaseDir}}", "x {{.Case.Dir}}", "{{}}"])
def test_an_unknown_variable_is_an_error_and_other_braces_are_text(template: str) -> None:
    if "Case.Dir" in template or template == "{{}}":
        assert render(template, {"CASE_DIR": "/c"}) == template
    else:
        with pytest.raises(UsageError, match=r"there is no variable.*\n.*CaseDir"):
            render(template, {"CASE_DIR": "/c"})


@given(st.text(max_size=40), st.text(max_size=20))
def test_a_value_is_never_read_as_a_template_again(value: str, other: str) -> None:
    assert render("<{{.A}}>{{.B}}", {"A": value, "B": other}) == f"<{value}>{other}"


@given(
    st.binary(max_size=60), st.lists(st.sampled_from(["secret", "secretive", "tsec"]), max_size=3), st.integers(1, 9)
)
def test_a_secret_is_found_however_the_stream_is_cut(noise: bytes, secrets: list[str], size: int) -> None:
    scrubber = Scrubber(secret.encode() for secret in secrets)
    data = noise + b"".join(secret.encode() + noise[:3] for secret in secrets)
    fed = b"".join(scrubber.feed(data[at : at + size]) for at in range(0, len(data), size)) + scrubber.flush()
    assert not any(secret.encode() in fed for secret in secrets)
    if not any(secret.encode() in data for secret in secrets):
        assert fed == data
