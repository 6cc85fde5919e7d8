"""Load one plugin: from a reference and options to an object of its kind."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Literal, overload

from agentix.registry.building import build
from agentix.registry.kinds import Kind
from agentix.registry.resolving import resolve

if TYPE_CHECKING:
    from agentix.interfaces import Agent, Dataset, SandboxProvider, Step, Transport

Options = Mapping[str, object] | None
Typed = Collection[str]


@overload
def load(
    kind: Literal["dataset"], ref: str, options: Options = None, *, where: str | None = None, typed: Typed = ()
) -> Dataset: ...
@overload
def load(
    kind: Literal["agent"], ref: str, options: Options = None, *, where: str | None = None, typed: Typed = ()
) -> Agent: ...
@overload
def load(
    kind: Literal["provider"], ref: str, options: Options = None, *, where: str | None = None, typed: Typed = ()
) -> SandboxProvider: ...
@overload
def load(
    kind: Literal["step"], ref: str, options: Options = None, *, where: str | None = None, typed: Typed = ()
) -> Step: ...
@overload
def load(
    kind: Literal["transport"], ref: str, options: Options = None, *, where: str | None = None, typed: Typed = ()
) -> Transport: ...
@overload
def load(kind: Kind, ref: str, options: Options = None, *, where: str | None = None, typed: Typed = ()) -> object: ...
def load(kind: Kind, ref: str, options: Options = None, *, where: str | None = None, typed: Typed = ()) -> object:
    """Load the plugin that a reference names.

    Args:
        kind: What it has to be.
        ref: `name`, `distribution/name`, `kind:name`, `module:attr` or `./file.py[:attr]`.
        options: Checked against the plugin's `Config`, which is then the only argument that it is made with.
        where: The option or the path in a file that the user gave it under, such as `--provider`, by default the
            kind; an error about an option names `--provider-opt KEY`, or `path.KEY`.
        typed: Names of the options whose values are taken for what they are, as those of a file; of the others a text
            is read as what the option has to be, as on a command line.

    Raises:
        ConfigError: The reference or an option is not valid, or what was found is no such plugin.
        PluginNotFound: Nothing has that name.
        PluginAmbiguous: Several have it.
        PluginBroken: It is installed, but its own code fails.
        PluginIncompatible: It was built for another version of agentix.
    """
    where = kind if where is None else where
    return build(kind, resolve(kind, ref, where=where), dict(options or {}), where=where, typed=typed)
