from __future__ import annotations

import os
import subprocess
import sys

import pytest

COMMANDS = {
    "help": ["--help"],
    "version": ["--version"],
    "plugins": ["plugins", "list"],
    "plugins --json": ["plugins", "list", "--json"],
    "steps --json": ["steps", "--json"],
    "schema": ["schema"],
}


def agentix(arguments, **how):
    code = "import sys; from agentix.cli.app import main; sys.exit(main('agentix'))"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, text=True, check=False, **how
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_output_that_does_not_arrive_is_one_error(command):
    with open("/dev/full", "w") as full:
        done = agentix(COMMANDS[command], stdout=full)
    assert done.stderr == "error: not all of the output could be written: No space left on device\n"
    assert done.returncode == 1


def test_what_is_in_the_buffer_at_the_end_counts_too():
    code = (
        "import sys\nfrom agentix.cli.entry import run_command\n"
        "class Command:\n"
        "    def main(self, *_, **__):\n"
        "        sys.stdout.write('x')\n"
        "        return {}\n"
        "sys.exit(run_command(Command, [], program='agentix'))"
    )
    for returned, expected in ((0, 1), (3, 3)):
        with open("/dev/full", "w") as full:
            argv = [sys.executable, "-c", code.format(returned)]
            env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
            done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=env)
        assert (done.returncode, done.stderr.count("\n")) == (expected, 1)
        assert "No space left on device" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_has_seen_enough_is_no_error(command):
    read, write = os.pipe()
    os.close(read)
    done = agentix(COMMANDS[command], stdout=write)
    os.close(write)
    assert done.stderr == ""


def test_a_command_without_a_standard_output_works(tmp_path):
    code = "import sys; from agentix.cli.app import main; sys.exit(main('agentix'))"
    argv = ["sh", "-c", 'exec "$0" "$@" >&-', sys.executable, "-c", code, "plugins", "list", "--json"]
    done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
