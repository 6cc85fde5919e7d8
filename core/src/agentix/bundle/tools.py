"""Puts the tools of a bundle into its tree, and their commands into `bin`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from agentix.bundle.description import check_link
from agentix.bundle.launcher import write_launcher
from agentix.bundle.libraries import copy_portable
from agentix.bundle.listing import COMPILED
from agentix.bundle.project import PathTool
from agentix.errors import BundleError


def add_tool(tool: PathTool, tree: Path, *, base: Path) -> dict[str, str]:
    """Copy a program or a directory of programs.

    Args:
        tool: What to copy.
        tree: The bundle's tree.
        base: The directory that its path is relative to.

    Returns:
        Where each of its commands comes from.

    Raises:
        BundleError: It does not exist, or has no commands.
    """
    source = base / tool.path.expanduser()
    name = tool.name or source.resolve().name
    said = f"tool {tool.path}"
    if not source.exists():
        raise BundleError(f"{said} does not exist: there is nothing at {source}")
    if source.is_dir():
        if tool.libraries:
            raise BundleError(f"{said}: only a program can bring its libraries, not a directory")
        return _add_folder(source, tree, name=name, commands=tool.commands, said=said)
    if tool.commands:
        raise BundleError(f"{said}: only a directory has commands to choose from")
    if not os.access(source, os.X_OK):
        raise BundleError(f"{said} is not executable", hint=f"chmod +x {source}")
    if tool.libraries:
        launcher = copy_portable(source, tree / "tools" / name, name=name)
        link_command(tree, name, launcher)
    else:
        (tree / "bin").mkdir(exist_ok=True)
        _refuse_twin(tree, name)
        shutil.copyfile(source, tree / "bin" / name)
        (tree / "bin" / name).chmod(0o755)
    return {name: str(tool.path)}


def link_command(tree: Path, name: str, program: Path) -> None:
    """Make a program of the tree a command: a script that works from wherever the tree is mounted."""
    place = program.relative_to(tree)
    write_command(tree, name, f'exec "$top/{place}" "$@"')


def write_command(tree: Path, name: str, line: str) -> None:
    """Make a command that runs a line of shell, in which `$top` is where the tree is mounted.

    A link would do for most programs; but a launcher looks beside its own path for what it starts.
    """
    _refuse_twin(tree, name)
    write_launcher(tree / "bin" / name, f"top=$here/..\n{line}")


def _add_folder(source: Path, tree: Path, *, name: str, commands: Sequence[str], said: str) -> dict[str, str]:
    target = tree / "tools" / name
    if target.exists():
        raise BundleError(
            f"{said}: there are two tools called {name}", hint="give one another name: { path = …, name = … }"
        )
    _copy_folder(source, target, said=said)
    chosen = commands or _programs(target)
    if not chosen:
        raise BundleError(
            f"{said} has no programs in bin or at its top", hint="name them: { path = …, commands = […] }"
        )
    found = {}
    for command in chosen:
        program = target / command
        if (
            not program.resolve().is_relative_to(target.resolve())
            or not os.access(program, os.X_OK)
            or program.is_dir()
        ):
            raise BundleError(f"{said}: {command} is no program in it")
        link_command(tree, program.name, program)
        found[program.name] = f"{name}/{command}"
    return found


def _programs(folder: Path) -> list[str]:
    for place in (folder / "bin", folder):
        if place.is_dir():
            names = [path for path in sorted(place.iterdir()) if path.is_file() and os.access(path, os.X_OK)]
            if names:
                return [str(path.relative_to(folder)) for path in names]
    return []


def _copy_folder(source: Path, target: Path, *, said: str) -> None:
    target.mkdir(parents=True)
    for folder, folders, names in os.walk(source):
        here, there = Path(folder), target / Path(folder).relative_to(source)
        folders[:] = [name for name in folders if name != COMPILED]
        for name in (*names, *folders):
            path = here / name
            if path.is_symlink():
                link = os.fspath(path.readlink())
                try:
                    check_link(str(path.relative_to(source)), link)
                except ValueError:
                    raise BundleError(f"{said}: the link {path} leads out of the directory, to {link}") from None
                (there / name).symlink_to(link)
            elif path.is_dir():
                (there / name).mkdir()
            elif path.is_file():
                shutil.copyfile(path, there / name)
                (there / name).chmod(0o755 if os.access(path, os.X_OK) else 0o644)
            else:
                raise BundleError(f"{said}: {path} is neither a file nor a directory")


def _refuse_twin(tree: Path, name: str) -> None:
    if (tree / "bin" / name).exists():
        raise BundleError(
            f"two tools of the bundle have the command {name}", hint="leave one out, or name it otherwise"
        )
