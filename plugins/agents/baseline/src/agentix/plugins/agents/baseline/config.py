"""Options of the agent `command`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

LONGEST_VARIABLE = 131_071
"""Bytes that Linux takes for one variable, with its name and the sign between."""

PREFIX = "AGENTIX_"

Absolute = Annotated[str, Field(pattern=r"^/")]


class CommandConfig(BaseModel):
    """What to run and how. Exactly one of `command` and `script` is given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str | list[str] | None = Field(default=None, min_length=1)
    """A command line for the sandbox's shell, or a program and its arguments. The program is in the sandbox."""
    script: Path | None = None
    """A program on this machine that is copied into the sandbox: a script, or a binary for it."""
    args: list[str] = Field(default_factory=list)
    """Arguments of the script."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables for the program."""
    pass_env: list[str] = Field(default_factory=list)
    """Names of variables of this process that the program gets too, such as a key."""
    cwd: Absolute | None = None
    """Where it starts; the sandbox's working directory by default."""
    patch_file: Absolute | None = None
    """A file in the sandbox where the program leaves its patch; without one, what it changed is the answer."""
    trajectory_file: Absolute | None = None
    """A file in the sandbox where the program leaves its trajectory in ATIF; by default the one that
    `AGENTIX_TRAJECTORY_FILE` names."""
    max_log_mb: Annotated[int, Field(gt=0)] = 1024
    """How much of stdout and of stderr is kept, each."""

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if (self.command is None) == (self.script is None):
            raise ValueError("give either command or script")
        if self.args and self.script is None:
            raise ValueError("args are for a script; a command has its own")
        if self.script is not None and not self.script.is_file():
            raise ValueError(f"script: there is no file {self.script}")
        for name, value in self.env.items():
            check_variable(name, value)
            if name in self.pass_env:
                raise ValueError(f"{name} is in env and in pass_env")
        for name in self.pass_env:
            check_variable(name, "")
        return self


def check_variable(name: str, value: str) -> None:
    """See that a variable can be given to a program.

    Raises:
        ValueError: It cannot.
    """
    if not name or "=" in name or "\0" in name + value:
        raise ValueError(f"{name!r} is no variable that a program can have")
    if name.startswith(PREFIX):
        raise ValueError(f"{name}: variables that begin with {PREFIX} are set by the agent itself")
    size = len(os.fsencode(f"{name}={value}"))
    if size > LONGEST_VARIABLE:
        raise ValueError(f"{name} has {size} bytes; a variable has at most {LONGEST_VARIABLE}, with its name")
