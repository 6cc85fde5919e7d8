"""Packs the modules with which a server starts into one file."""

from __future__ import annotations
import __future__

import ast
import marshal
from pathlib import Path, PurePosixPath
from types import CodeType

PACKAGE = "agentix.runtime"
START = "start"
PACK = "agentix.runtime.start"
"""File at the top of a base runtime, which `SERVER_ARGS` runs."""

# Every module is made and run here, those first that others import; nothing is looked for in directories but what
# they import later.
_PROGRAM = """\
import sys

folder = sys.prefix + {folder!r}
for name, place in ("agentix", folder.rpartition("/")[0]), ({package!r}, folder):
    package = sys.modules[name] = type(sys)(name)
    package.__package__, package.__path__ = name, [place]
sys.modules["agentix"].runtime = package
for name, file, code in {modules!r}:
    module = type(sys)({package!r} + "." + name)
    module.__package__, module.__file__ = {package!r}, file
    sys.modules[module.__name__] = module
    setattr(package, name, module)
    exec(code, module.__dict__)
main = package.server.main
"""
_MODULES = "the modules"


def write_pack(folder: Path, *, top: Path, shown: PurePosixPath) -> None:
    """Write the pack of the server's modules.

    Args:
        folder: The package's directory.
        top: The runtime that it belongs to.
        shown: What tracebacks call that.
    """
    place = folder.relative_to(top)
    modules = tuple(
        (name, str(shown / place / f"{name}.py"), _compile((folder / f"{name}.py").read_bytes(), shown / place / name))
        for name in import_order(folder)
    )
    program = _PROGRAM.format(package=PACKAGE, folder=f"/{place.as_posix()}", modules=_MODULES)
    code = compile(program, str(shown / PACK), "exec", dont_inherit=True)
    # Code is no literal: it takes the place of one.
    code = code.replace(co_consts=tuple(modules if value == _MODULES else value for value in code.co_consts))
    (top / PACK).write_bytes(marshal.dumps(code))


def import_order(folder: Path) -> list[str]:
    """The modules that `start` imports, directly or not, each after those that it needs itself."""
    order: dict[str, None] = {}

    def visit(name: str) -> None:
        for needed in _imported(ast.parse((folder / f"{name}.py").read_bytes())):
            if needed not in order and (folder / f"{needed}.py").is_file():
                visit(needed)
        order[name] = None

    visit(START)
    del order[START]
    return [*order]


def _imported(tree: ast.Module) -> list[str]:
    """The modules of the package that are imported whenever this one is."""
    found = []
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module == PACKAGE:
            found += [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(f"{PACKAGE}."):
            found.append((statement.module or "").removeprefix(f"{PACKAGE}."))
    return found


def _compile(source: bytes, shown: PurePosixPath) -> CodeType:
    tree = ast.parse(source)
    # What it would import, the flag stands for.
    tree.body = [node for node in tree.body if not (isinstance(node, ast.ImportFrom) and node.module == "__future__")]
    code: CodeType = compile(
        tree, f"{shown}.py", "exec", flags=__future__.annotations.compiler_flag, dont_inherit=True, optimize=2
    )
    return code
