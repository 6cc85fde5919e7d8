"""What a bundle has to fit: the platform, Python and C library of the base runtime."""

from __future__ import annotations

import platform
import re
import sys
from dataclasses import dataclass

from agentix.bundle.description import Description
from agentix.errors import BundleError

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What bundles are built for here."""

    platform: str
    python: str
    libc: str


def this_machine() -> Machine:
    """The one that this process's interpreter, and so the base runtime, runs on."""
    architecture = platform.machine()
    name, version = platform.libc_ver()
    return Machine(
        platform=f"{sys.platform}/{_ARCHITECTURES.get(architecture, architecture)}",
        python=f"{sys.version_info[0]}.{sys.version_info[1]}",
        libc=f"{name}-{version}" if name else "musl",
    )


def check_fit(description: Description, *, ref: str, machine: Machine | None = None) -> None:
    """Refuse a bundle that cannot run in the sandboxes of this machine.

    Raises:
        BundleError: The message says what it was built for and what it meets here.
    """
    here = machine or this_machine()
    again = f"build it on a machine like this one: agentix build PATH -n {description.name}:{description.tag}"
    if description.platform != here.platform:
        raise BundleError(
            f"bundle {ref} was built for {description.platform}; sandboxes here are {here.platform}", hint=again
        )
    if description.python != here.python:
        raise BundleError(
            f"bundle {ref} was built for Python {description.python}; agentix runs on Python {here.python}, and so do "
            "its sandboxes",
            hint=f"run agentix with Python {description.python}, or {again}",
        )
    if description.libc is not None and not _serves(here.libc, description.libc):
        raise BundleError(f"bundle {ref} needs {description.libc}; sandboxes here have {here.libc}", hint=again)


def _serves(here: str, needed: str) -> bool:
    """A C library serves what was built with the same one in an older version."""
    ours, theirs = here.partition("-"), needed.partition("-")
    return ours[0] == theirs[0] and _numbers(ours[2]) >= _numbers(theirs[2])


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
