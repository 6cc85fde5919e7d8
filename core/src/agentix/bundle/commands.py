"""Makes the console scripts of packages commands of a bundle."""

from __future__ import annotations

import re
from pathlib import Path

from agentix.bundle.launcher import write_launcher
from agentix.bundle.libraries import is_elf
from agentix.bundle.tools import link_command, write_command
from agentix.bundle.wheel import Wheel
from agentix.errors import BundleError

PYTHON = "python"
"""A launcher at the top of the tree: the base runtime's interpreter, with the bundle's libraries.

Where nothing is mounted, it is the interpreter that AGENTIX_PYTHON names, else one of the same version on PATH.
"""

_LAUNCHER = """runtime=/agentix/runtime
for python in "$runtime"/bin/python*; do
  [ -x "$python" ] || continue
  for loader in "$runtime"/lib/ld-linux*.so* "$runtime"/lib/ld-musl*.so*; do
    [ -x "$loader" ] && exec "$loader" --library-path "$runtime/lib:$here/lib" "$python" -I -S -B "$@"
  done
  exec "$python" -I -S -B "$@"
done
exec "${AGENTIX_PYTHON:-pythonVERSION}" -I -S -B "$@\""""
_RUN = (
    "import sys, site; from importlib import import_module; from operator import attrgetter; "
    "sys.argv[0] = {name!r}; site.addsitedir(sys.argv.pop(1)); "
    "sys.exit(attrgetter({attr!r})(import_module({module!r}))())"
)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_TARGET = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<attr>[A-Za-z_][\w.]*)(\s*\[.*\])?", re.ASCII)


def write_python(tree: Path, *, version: str) -> None:
    """Write the launcher of Python."""
    write_launcher(tree / PYTHON, _LAUNCHER.replace("VERSION", version))


def add_commands(wheel: Wheel, tree: Path) -> dict[str, str]:
    """Make all console scripts of a distribution commands.

    Returns:
        What each comes from.
    """
    for name, target in wheel.commands.items():
        _add(name, target, tree)
    return dict.fromkeys(wheel.commands, f"{wheel.name} {wheel.version}")


def add_script(name: str, wheels: dict[str, Wheel], tree: Path) -> dict[str, str]:
    """Make one command of a dependency a command of the bundle.

    Raises:
        BundleError: No dependency has it.
    """
    for wheel in wheels.values():
        if name in wheel.commands:
            _add(name, wheel.commands[name], tree)
            return {name: f"{wheel.name} {wheel.version}"}
    program = tree / "site/bin" / name
    if not program.is_file():
        known = sorted({command for wheel in wheels.values() for command in wheel.commands})
        raise BundleError(f"scripts: no dependency has a command {name}; there are {', '.join(known) or 'none'}")
    if is_elf(program):
        link_command(tree, name, program)
    else:
        write_command(tree, name, f'exec "$top/{PYTHON}" "$top/site/bin/{name}" "$@"')
    return {name: "site/bin"}


def _add(name: str, target: str, tree: Path) -> None:
    match = _TARGET.fullmatch(target)
    if match is None or not _NAME.fullmatch(name):
        raise BundleError(f"the console script {name} = {target!r} is not valid")
    code = _RUN.format(name=name, module=match["module"], attr=match["attr"])
    write_command(tree, name, f'exec "$top/{PYTHON}" -c "{code}" "$top/site" "$@"')
