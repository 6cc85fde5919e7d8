"""Builds a bundle from a project: its packages, its dependencies as locked, its tools."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from agentix.bundle.archive import settle
from agentix.bundle.backend import build_wheel
from agentix.bundle.commands import add_commands, add_script, write_python
from agentix.bundle.description import Description, Entry
from agentix.bundle.description import Project as BuiltFrom
from agentix.bundle.layer import drop_compiled, kept_layer, link_layer
from agentix.bundle.libraries import bring_libraries
from agentix.bundle.listing import scan
from agentix.bundle.locked import Dependencies, find_dependencies, local_folder, wanted
from agentix.bundle.lookup import Bundle
from agentix.bundle.machine import this_machine
from agentix.bundle.npm import add_package, find_node, make_node, make_package, node_key, npm_key
from agentix.bundle.packages import packages_layer
from agentix.bundle.project import NpmTool, Project, read_project
from agentix.bundle.reference import TagRef, parse_tag
from agentix.bundle.runtime import build_runtime
from agentix.bundle.store import Store, open_store
from agentix.bundle.tools import add_tool
from agentix.bundle.wheel import Wheel, read_distributions, unpack_wheel
from agentix.errors import BundleError

_UNTAGGED = re.compile(r"[^A-Za-z0-9_.-]")


def build_bundle(
    path: Path | str = ".",
    *,
    name: str | None = None,
    refresh: bool = False,
    on_step: Callable[[str], None] | None = None,
) -> Bundle:
    """Build the project at a path and put the bundle into the local store. It blocks; call it from a thread.

    The same sources and dependencies give the same digest. What changes seldom, the dependencies and the packages
    of npm, is kept, so that building again after an edit takes about a second. A build that is interrupted
    leaves nothing that counts.

    Args:
        path: The directory with the pyproject.toml.
        name: `name` or `name:tag`; by default the project's name and version.
        refresh: Ask the package indexes again for what no lock file fixes.
        on_step: Told what is being done.

    Raises:
        BundleError: The project is not valid, or something of it cannot be had or built.
        HostError: The disk is full, or the store cannot be used.
    """
    ref = None if name is None else parse_tag(name)
    project = read_project(Path(path))
    store = open_store()
    with store.workspace() as work:
        build = _Build(project=project, store=store, work=work, refresh=refresh, say=on_step or (lambda _: None))
        tree, known = build.run()
        ref = ref or _default_name(build)
        description = build.describe(tree, known, ref)
        return settle(store, tree, description, ref=ref)


@dataclass
class _Build:
    project: Project
    store: Store
    work: Path
    refresh: bool
    say: Callable[[str], None]
    own: list[Wheel] = field(default_factory=list)
    """The project's wheel first, then those of other projects on this machine."""
    commands: dict[str, str] = field(default_factory=dict)

    def run(self) -> tuple[Path, dict[str, Entry]]:
        """Fill a tree; returns it, and the entries that are known already."""
        tree = self.work / "tree"
        site = tree / "site"
        site.mkdir(parents=True)
        runtime = frozenset(path.name for path in (build_runtime().path / "lib").iterdir() if path.is_file())
        dependencies = self._own_packages(site)
        if dependencies.batches or dependencies.local:
            self.say(f"dependencies from {dependencies.source}")
        anew = self.refresh and not dependencies.exact
        layer = packages_layer(dependencies, store=self.store, runtime=runtime, work=self.work, refresh=anew)
        for note in layer.notes:
            self.say(f"note: {note}")
        mine = list(site.rglob("*.py"))
        known = link_layer(layer, tree)
        for module in mine:
            drop_compiled(tree, module.relative_to(tree).as_posix())
        wheels = read_distributions(site)
        self._check(dependencies, wheels)
        if any(wheel.native for wheel in self.own):
            for note in bring_libraries(site, tree / "lib", have=runtime):
                self.say(f"note: {note}")
        write_python(tree, version=this_machine().python)
        for wheel in self.own[:1]:
            self.commands |= add_commands(wheel, tree)
        for name in self.project.bundle.scripts:
            if name not in self.commands:
                self.commands |= add_script(name, wheels, tree)
        return tree, known | self._tools(tree)

    def describe(self, tree: Path, known: dict[str, Entry], ref: TagRef) -> Description:
        """What the tree is."""
        machine = this_machine()
        entries = scan(tree, known=known)
        native = any(entry.path.startswith("site/") and ".so" in entry.path for entry in entries)
        wheels = read_distributions(tree / "site")
        first = self.own[0] if self.own and self.project.build is not None else None
        return Description.of(
            name=ref.name,
            tag=ref.tag,
            platform=machine.platform,
            python=machine.python,
            libc=machine.libc if native else None,
            project=first and BuiltFrom(name=first.name, version=first.version, modules=first.modules),
            packages={name: wheel.version for name, wheel in sorted(wheels.items())},
            tools=dict(sorted(self.commands.items())),
            entries=tuple(entries),
        )

    def _own_packages(self, site: Path) -> Dependencies:
        """Build and unpack the project, and the projects on this machine that it needs."""
        requires: list[Requirement] = []
        done: set[Path] = set()

        def add(project: Project, extras: tuple[str, ...]) -> None:
            done.add(project.path)
            if project.build is not None:
                self.say(f"building {project.name or project.path.name}")
                wheel = build_wheel(project, store=self.store, work=self.work, refresh=self.refresh)
                self.own.append(unpack_wheel(wheel, site))
                requires.extend(wanted(self.own[-1].requires, extras))
            else:
                requires.extend(wanted([Requirement(text) for text in project.requires], extras))

        add(self.project, self.project.bundle.extras)
        while True:
            outside = [requirement for requirement in requires if local_folder(requirement) not in done]
            dependencies = find_dependencies(self.project, outside)
            todo = [folder for folder in dependencies.local if folder not in done]
            if not todo:
                return dependencies
            for folder in todo:
                add(read_project(folder), ())

    def _tools(self, tree: Path) -> dict[str, Entry]:
        known: dict[str, Entry] = {}
        for tool in self.project.bundle.tools:
            if not isinstance(tool, NpmTool):
                self.commands |= add_tool(tool, tree, base=self.project.path)
                continue
            known |= self._npm(tool, tree)
        return known

    def _npm(self, tool: NpmTool, tree: Path) -> dict[str, Entry]:
        base = self.project.path
        node = find_node(tool, base=base)
        self.say(f"tool npm:{tool.npm}")
        layers = (
            (f"node {node_key(node)}", lambda target: make_node(target, node)),
            (
                f"npm {npm_key(tool, node=node, base=base)}",
                lambda target: make_package(target, tool, base=base, work=self.work),
            ),
        )
        known: dict[str, Entry] = {}
        for text, make in layers:
            key = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:40]
            known |= link_layer(kept_layer(self.store, key, make, work=self.work), tree)
        self.commands |= add_package(tool, tree)
        return known

    def _check(self, dependencies: Dependencies, wheels: dict[str, Wheel]) -> None:
        """Refuse a lock that is older than what the project asks for."""
        for wheel in self.own:
            extras = self.project.bundle.extras if wheel is self.own[0] else ()
            for requirement in wanted(wheel.requires, extras):
                found = wheels.get(canonicalize_name(requirement.name))
                if found is None or not requirement.specifier.contains(found.version, prereleases=True):
                    has = "does not have it" if found is None else f"has {found.version}"
                    raise BundleError(
                        f"{wheel.name} needs {requirement}, but {dependencies.source} {has}",
                        hint="lock again, such as by `uv lock`",
                    )


def _default_name(build: _Build) -> TagRef:
    if not build.own or build.project.build is None:
        raise BundleError(f"the project in {build.project.path} has no name", hint="give the bundle one: -n NAME:TAG")
    wheel = build.own[0]
    return parse_tag(f"{canonicalize_name(wheel.name)}:{_UNTAGGED.sub('_', wheel.version)}")
