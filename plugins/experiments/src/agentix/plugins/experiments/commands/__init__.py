"""Running configured commands: variables in, files and an exit status out."""

from agentix.plugins.experiments.commands.command import Command, commands_of, file_sha256
from agentix.plugins.experiments.commands.pins import (
    CommandProblem,
    CommandRefused,
    check_commands,
    check_pins,
    command_problems,
)
from agentix.plugins.experiments.commands.result import CommandResult
from agentix.plugins.experiments.commands.runner import CommandRunner
from agentix.plugins.experiments.commands.template import render, variables_of

__all__ = [
    "Command",
    "CommandProblem",
    "CommandRefused",
    "CommandResult",
    "CommandRunner",
    "check_commands",
    "check_pins",
    "command_problems",
    "commands_of",
    "file_sha256",
    "render",
    "variables_of",
]
