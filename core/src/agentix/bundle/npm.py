"""Packages of the npm registry as tools, with a Node of their own."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

from agentix.bundle.libraries import copy_portable
from agentix.bundle.pip import run
from agentix.bundle.project import NpmTool
from agentix.bundle.tools import link_command, write_command
from agentix.errors import BundleError

_NODE = Path("tools/node")
_PRELOAD = _NODE / "exec-path.cjs"
# Node takes its own path from the kernel, which names the loader: what it starts by that path would not run.
_PRELOADED = "process.execPath = require('path').join(__dirname, 'node');\n"
_NAMES = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-")


def find_node(tool: NpmTool, *, base: Path) -> Path:
    """The Node that a package is to run with.

    Raises:
        BundleError: There is none.
    """
    if tool.node is not None:
        path = base / tool.node.expanduser()
        if not os.access(path, os.X_OK):
            raise BundleError(f"tool npm:{tool.npm}: there is no program at {path}")
        return path.resolve()
    found = shutil.which("node")
    if found is None:
        raise BundleError(
            f"tool npm:{tool.npm}: node is not installed here",
            hint='install it, or name one: { npm = …, node = "path" }',
        )
    return Path(found).resolve()


def node_key(node: Path) -> str:
    """Changes with the Node."""
    status = node.stat()
    return f"{node} {status.st_size} {status.st_mtime_ns}"


def npm_key(tool: NpmTool, *, node: Path, base: Path) -> str:
    """Changes with everything that the installed package depends on."""
    lock = "" if tool.lock is None else hashlib.sha256(_lock(tool, base=base)).hexdigest()
    return f"{tool.npm} {lock} {node_key(node)} {os.environ.get('NPM_CONFIG_REGISTRY', '')}"


def make_node(tree: Path, node: Path) -> list[str]:
    """Put a Node into a layer."""
    copy_portable(node, tree / _NODE, name="node")
    (tree / _PRELOAD).write_text(_PRELOADED, encoding="utf-8")
    launcher = tree / _NODE / "node"
    text = launcher.read_bytes()
    if text.startswith(b"#!"):
        # Only a launcher hides the path of its program.
        flag = b'"$here/node.elf" --require "$here/exec-path.cjs" "$@"'
        launcher.write_bytes(text.replace(b'"$here/node.elf" "$@"', flag))
    return []


def make_package(tree: Path, tool: NpmTool, *, base: Path, work: Path) -> list[str]:
    """Install a package into a layer.

    Raises:
        BundleError: npm is not there, or failed.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise BundleError(f"tool npm:{tool.npm}: npm is not installed here", hint="install it where bundles are built")
    folder = tree / _folder(tool)
    folder.mkdir(parents=True)
    version = tool.npm.rpartition("@")[2]
    manifest = {"name": "tools", "private": True, "dependencies": {tool.package: version}}
    (folder / "package.json").write_text(json.dumps(manifest), encoding="utf-8")
    how = "install"
    if tool.lock is not None:
        (folder / "package-lock.json").write_bytes(_lock(tool, base=base))
        how = "ci"
    flags = ("--omit=dev", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
    run([npm, how, *flags], cwd=folder, work=work, what=f"installing npm:{tool.npm}")
    return []


def add_package(tool: NpmTool, tree: Path) -> dict[str, str]:
    """Make the commands of an installed package commands of the bundle.

    Returns:
        Where each of its commands comes from.

    Raises:
        BundleError: It has none.
    """
    package = tree / _folder(tool) / "node_modules" / tool.package
    try:
        bins = json.loads((package / "package.json").read_bytes()).get("bin", {})
    except (OSError, ValueError) as error:
        raise BundleError(f"tool npm:{tool.npm}: its package.json cannot be read: {error}") from error
    if isinstance(bins, str):
        bins = {tool.package.rpartition("/")[2]: bins}
    chosen = tool.commands or tuple(sorted(bins))
    if not chosen:
        raise BundleError(f"tool npm:{tool.npm} has no commands")
    for name in chosen:
        if name not in bins or not _NAMES.issuperset(name):
            raise BundleError(f"tool npm:{tool.npm} has no command {name}; it has {', '.join(sorted(bins)) or 'none'}")
        program = Path(os.path.normpath(package / bins[name]))
        if not program.is_relative_to(package) or not program.is_file():
            raise BundleError(f"tool npm:{tool.npm}: its command {name} is no file of it: {bins[name]}")
        with program.open("rb") as file:
            first = file.readline(200)
        if program.suffix in (".js", ".cjs", ".mjs") or (first.startswith(b"#!") and b"node" in first):
            write_command(tree, name, f'exec "$top/{_NODE}/node" "$top/{program.relative_to(tree)}" "$@"')
        else:
            link_command(tree, name, program)
    return dict.fromkeys(chosen, f"npm:{tool.npm}")


def _folder(tool: NpmTool) -> Path:
    return Path("tools/npm") / tool.package.replace("/", "+")


def _lock(tool: NpmTool, *, base: Path) -> bytes:
    assert tool.lock is not None
    path = base / tool.lock.expanduser()
    try:
        return path.read_bytes()
    except OSError as error:
        raise BundleError(f"tool npm:{tool.npm}: {path} cannot be read: {error.strerror}") from error
