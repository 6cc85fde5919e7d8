"""Checks of the layout that no linter knows; `make lint` runs this file, which prints each problem on a line."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

MAX_LINES = 500


def problems(root: Path, files: list[Path]) -> Iterator[str]:
    """What is wrong with the layout of a repository.

    Args:
        root: Its top directory.
        files: The files that belong to it, relative to the root.
    """
    yield from _distributions(root)
    sources = [file for file in files if file.suffix == ".py"]
    yield from _lengths(root, sources)
    yield from _tests(sources)
    for src in sorted({_src(file) for file in sources if "src" in file.parts}):
        yield from _namespace(root, src, [file.relative_to(src) for file in sources if file.is_relative_to(src)])
    for file in sources:
        if file.name == "__init__.py" and "src" in file.parts and "agentix" in file.parts:
            yield from _exports(root, file)
        if file.is_relative_to("core/src/agentix/runtime"):
            yield from _standard_library_only(root, file)
    yield from _contracts(root, sources)


def portions(modules: list[Path]) -> set[Path]:
    """The first regular package on each path: what stands below the namespace, relative to `src`."""
    packages = {module.parent for module in modules if module.name == "__init__.py"}
    return {package for package in packages if not packages.intersection(package.parents)}


def _src(file: Path) -> Path:
    return Path(*file.parts[: file.parts.index("src") + 1])


def _distributions(root: Path) -> Iterator[str]:
    top = tomllib.loads((root / "pyproject.toml").read_text())
    version = top["project"]["version"]
    for member in top["tool"]["uv"]["workspace"]["members"]:
        project = tomllib.loads((root / member / "pyproject.toml").read_text())["project"]
        if project["version"] != version:
            yield f"{member}/pyproject.toml: version {project['version']}, but the root has {version}"
        core = f"agentix-rollouts-core=={version}"
        if member != "core" and core not in project["dependencies"]:
            yield f"{member}/pyproject.toml: does not depend on {core}"
        licence = root / member / "LICENSE"
        if not licence.is_file() or licence.read_bytes() != (root / "LICENSE").read_bytes():
            yield f"{member}/LICENSE: is not a copy of LICENSE"
    dev = top["dependency-groups"]["dev"]
    listed = [line for line in (root / "requirements-dev.txt").read_text().splitlines() if line[:1] not in {"#", ""}]
    editable = [f"-e {member}" for member in top["tool"]["uv"]["workspace"]["members"]]
    if listed != editable + dev:
        yield "requirements-dev.txt: is not the workspace's members and the group `dev` of pyproject.toml"


def _lengths(root: Path, sources: list[Path]) -> Iterator[str]:
    for file in sources:
        lines = (root / file).read_bytes().count(b"\n")
        if lines > MAX_LINES:
            yield f"{file}: {lines} lines, the most is {MAX_LINES}"


def _tests(sources: list[Path]) -> Iterator[str]:
    seen: dict[str, Path] = {}
    for file in sources:
        if "tests" not in file.parts or "src" in file.parts:
            continue
        if file.name == "__init__.py":
            yield f"{file}: a test directory is no package"
        if file.name.startswith("test_"):
            if file.name in seen:
                yield f"{file}: has the same name as {seen[file.name]}"
            seen[file.name] = file


def _namespace(root: Path, src: Path, modules: list[Path]) -> Iterator[str]:
    tops = portions(modules)
    for top in sorted(tops):
        if len(top.parts) > 1 and not (root / src / top / "py.typed").is_file():
            yield f"{src / top}: has no py.typed"
    for module in modules:
        inside = [top for top in tops if module.is_relative_to(top)]
        if not inside:
            yield f"{src / module}: a loose module in a namespace"
    for fixed in ("agentix", "agentix/plugins", "agentix/providers"):
        if Path(fixed) in tops:
            yield f"{src / fixed}/__init__.py: makes the namespace a regular package"
    for top in tops:
        if top.parts[:2] == ("agentix", "plugins") and len(top.parts) == 3 and top.name in _KINDS:
            yield f"{src / top}/__init__.py: makes the namespace a regular package"


_KINDS = {"agents", "datasets", "steps", "transports"}


def _exports(root: Path, file: Path) -> Iterator[str]:
    """`__all__` is exactly what a package defines or takes from its own parts."""
    tree = ast.parse((root / file).read_bytes())
    lazy = any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body)
    public, declared = set[str](), None
    for node in tree.body:
        match node:
            case ast.ImportFrom(module=str(module)) if module.startswith("agentix"):
                public |= {alias.asname or alias.name for alias in node.names}
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) if lazy:
                public |= {a.asname or a.name for n in node.body if isinstance(n, ast.ImportFrom) for a in n.names}
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                public.add(name)
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                declared = list(ast.literal_eval(value))
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                public.add(name)
    public = {name for name in public if not name.startswith("_")}
    if declared is None:
        if public:
            yield f"{file}: has no __all__"
        return
    for name in sorted(set(declared) - public):
        yield f"{file}: __all__ names {name}, which the package does not have"
    for name in sorted(public - set(declared)):
        yield f"{file}: __all__ does not name {name}"
    if len(declared) != len(set(declared)):
        yield f"{file}: __all__ names something twice"


def _standard_library_only(root: Path, file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse((root / file).read_bytes())):
        match node:
            case ast.Import(names=aliases):
                names = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(module), level=0):
                names = [module]
            case _:
                continue
        for name in names:
            if name.partition(".")[0] not in sys.stdlib_module_names and not f"{name}.".startswith("agentix.runtime."):
                yield f"{file}:{node.lineno}: imports {name}; the runtime has nothing but the standard library"


def _contracts(root: Path, sources: list[Path]) -> Iterator[str]:
    """import-linter sees no portion that it is not told of."""
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]
    found = set[str]()
    for src in {_src(file) for file in sources if "src" in file.parts}:
        tops = portions([file.relative_to(src) for file in sources if file.is_relative_to(src)])
        found |= {".".join(top.parts) for top in tops if top.parts[0] == "agentix" and len(top.parts) > 1}
    for name in sorted(found ^ set(settings["root_packages"])):
        yield f"pyproject.toml: root_packages of importlinter and the source tree differ in {name}"
    for contract in settings["contracts"]:
        modules = set(contract.get("source_modules", [])) | set(contract.get("forbidden_modules", []))
        if contract["name"].startswith("The runtime") and modules != found:
            yield f"pyproject.toml: the contract {contract['name']!r} leaves out {', '.join(sorted(found - modules))}"


def tracked(root: Path) -> list[Path]:
    """The files of a git work tree, committed or about to be."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout.decode()
    return [Path(name) for name in listing.split("\0") if name and (root / name).is_file()]


if __name__ == "__main__":
    here = Path(__file__).resolve().parents[2]
    found = list(problems(here, tracked(here)))
    print("\n".join(found) or "house: in order")
    sys.exit(bool(found))
