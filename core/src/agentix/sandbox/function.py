"""Which functions can be called in a sandbox, and by what name it finds them."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentix.errors import UsageError

if TYPE_CHECKING:
    from agentix.bundle import MountedBundle

_TOP_LEVEL = "move it to the top level of a module, and pass what it needs as arguments"


@dataclass(frozen=True, kw_only=True)
class Place:
    """What Python calls in a sandbox can import."""

    bundle: MountedBundle | None = None
    shares_host: bool = False
    """Whether that is what this process can, as the sandbox has no file system of its own."""

    @functools.cached_property
    def packages(self) -> frozenset[str]:
        """Names at the top of the bundle's site directory."""
        entries = () if self.bundle is None else self.bundle.entries
        return frozenset(
            entry.path.split("/")[1].partition(".")[0] for entry in entries if entry.path.startswith("site/")
        )


@dataclass(frozen=True, kw_only=True)
class Main:
    """What the host's `__main__` is called in the sandbox."""

    module: str
    file: str = ""
    """Where it is loaded from; empty where it is imported by its name."""

    @property
    def plain(self) -> dict[str, Any]:
        """As it is sent."""
        return {"module": self.module, "file": os.fsencode(self.file)}


@dataclass(frozen=True, kw_only=True)
class Reference:
    """How a sandbox finds a function."""

    name: str
    main: Main | None = None


def refer(function: Callable[..., Any], place: Place, *, iterate: bool) -> Reference:
    """The name of a function in a sandbox.

    Raises:
        UsageError: It cannot be called there; the message says why and what to do.
    """
    module, name = _importable(function)
    _suits(function, name, iterate=iterate)
    if module == "__main__":
        main = find_main(place, what=f"the function {name}")
        return Reference(name=f"{'__main__' if main.file else main.module}:{name}", main=main)
    if not place.shares_host:
        top = module.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in place.packages:
            raise _missing(f"the module {module} of {name}", place)
    return Reference(name=f"{module}:{name}")


def find_main(place: Place, *, what: str) -> Main:
    """The script that runs here as the sandbox finds it.

    Raises:
        UsageError: It does not find it.
    """
    script = sys.modules["__main__"]
    spec = getattr(script, "__spec__", None)
    if spec is not None and spec.name:
        top = spec.name.partition(".")[0]
        if not place.shares_host and top not in place.packages:
            raise _missing(f"the module {spec.name}, where {what} is,", place)
        return Main(module=spec.name)
    file = getattr(script, "__file__", None)
    if not file or not Path(file).is_file():
        raise UsageError(
            f"{what} was typed into this session and is in no file that a sandbox could import",
            hint="put it in a module",
        )
    file = os.path.abspath(file)  # noqa: PTH100 - a link is a name of its own
    if place.bundle is not None:
        return Main(module=_module_of(Path(file), place.bundle, what))
    if place.shares_host:
        return Main(module=Path(file).stem, file=file)
    raise _missing(f"the script {file}, where {what} is,", place)


def _importable(function: Callable[..., Any]) -> tuple[str, str]:
    if isinstance(function, functools.partial):
        raise UsageError(
            "a functools.partial cannot be called in a sandbox",
            hint="pass its function, and its arguments after it",
        )
    name = getattr(function, "__qualname__", None)
    if inspect.isclass(function) or not callable(function) or not isinstance(name, str):
        what = f"the class {name}" if inspect.isclass(function) else f"an object of {type(function).__qualname__}"
        raise UsageError(f"{what} is no function, and cannot be called in a sandbox", hint="pass a function")
    bound = getattr(function, "__self__", None)
    if bound is not None and not inspect.ismodule(bound):
        raise UsageError(
            f"{name} is bound to an object, which stays on the host",
            hint="pass a function at the top level of a module that takes the object as an argument",
        )
    if "<lambda>" in name:
        raise UsageError("a lambda has no name by which a sandbox could import it", hint=f"write a def; {_TOP_LEVEL}")
    if "<locals>" in name:
        raise UsageError(f"{name} is defined inside a function, so a sandbox cannot import it", hint=_TOP_LEVEL)
    if "." in name:
        raise UsageError(f"{name} is part of a class; only functions of a module can be called", hint=_TOP_LEVEL)
    module = function.__module__
    if getattr(sys.modules.get(module), name, None) is not function:
        raise UsageError(
            f"{module}.{name} is not this function, so a sandbox would import another one",
            hint="give it the name that it is found by; a decorator should keep it with functools.wraps",
        )
    return module, name


def _suits(function: Callable[..., Any], name: str, *, iterate: bool) -> None:
    generates = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    if generates and not iterate:
        raise UsageError(f"{name} is a generator", hint="iterate over sandbox.remote_iter(…)")
    if iterate and inspect.iscoroutinefunction(function):
        raise UsageError(f"{name} returns one value and no iterator", hint="await sandbox.remote(…)")


def _missing(what: str, place: Place) -> UsageError:
    if place.bundle is None:
        reason = "is not in the sandbox, which has no bundle and so nothing but the standard library"
    else:
        reason = f"is not in the bundle {place.bundle.description.name}"
    return UsageError(f"{what} {reason}", hint="build a bundle of its project with `agentix build`, and name that")


def _module_of(file: Path, bundle: MountedBundle, what: str) -> str:
    """The module of a bundle that is this script: the longest of its names there, with the same content."""
    named = [
        entry
        for entry in bundle.entries
        if entry.path.startswith("site/") and file.as_posix().endswith(entry.path[len("site") :])
    ]
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    same = [entry for entry in named if entry.sha256 == digest]
    if not same:
        name = bundle.description.name
        reason = "is not in" if not named else "has changed since it was built into"
        raise UsageError(
            f"the script {file}, where {what} is, {reason} the bundle {name}",
            hint="build the bundle again from its project",
        )
    longest = max(same, key=lambda entry: len(entry.path))
    return longest.path[len("site/") :].removesuffix(".py").removesuffix("/__init__").replace("/", ".")
