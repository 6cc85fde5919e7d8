"""Packs the modules with which a server starts into the pyc of one."""

from __future__ import annotations
import __future__

import ast
import importlib.util
import marshal
from pathlib import Path, PurePosixPath
from types import CodeType

PACKAGE = "agentix.runtime"
START = "start"

_UNCHECKED_HASH = (1).to_bytes(4, "little")
"""Flags of a pyc that is never compared with its source (PEP 552)."""

# Every module is made and run here, those first that others import; nothing is looked for in directories.
_PROGRAM = """\
import sys
from marshal import loads

package = sys.modules[{package!r}]
for name, file, code in loads({modules!r}):
    module = type(sys)({package!r} + "." + name)
    module.__package__, module.__file__ = {package!r}, file
    sys.modules[module.__name__] = module
    setattr(package, name, module)
    exec(code, module.__dict__)
main = package.server.main
"""


def write_pack(folder: Path, *, shown: PurePosixPath) -> None:
    """Write the pyc of the module `start`.

    Args:
        folder: The package's directory.
        shown: What tracebacks call it.
    """
    start = folder / f"{START}.py"
    modules = [
        (name, str(shown / f"{name}.py"), _compile((folder / f"{name}.py").read_bytes(), shown / f"{name}.py"))
        for name in import_order(folder)
    ]
    program = _PROGRAM.format(package=PACKAGE, modules=marshal.dumps(modules))
    code = compile(program, str(shown / start.name), "exec", dont_inherit=True)
    target = Path(importlib.util.cache_from_source(str(start)))
    target.parent.mkdir(exist_ok=True)
    header = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH + importlib.util.source_hash(start.read_bytes())
    target.write_bytes(header + marshal.dumps(code))


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
        tree, str(shown), "exec", flags=__future__.annotations.compiler_flag, dont_inherit=True, optimize=2
    )
    return code
