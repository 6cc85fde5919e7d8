"""Call the hooks of every plugin, and let none of those that look on break the run."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import Any

import pluggy

from agentix.errors import ConfigError, PluginBroken, PluginError, PluginNotFound
from agentix.hooks import specs
from agentix.registry import import_plugin, plugins
from agentix.registry.importing import blamed, said

STRICT = "AGENTIX_STRICT_PLUGINS"
"""Environment variable: set to 1, a hook plugin that cannot be loaded is an error instead of a note."""


class Hooks:
    """The hook implementations that a run tells what happens."""

    def __init__(self) -> None:
        self._plugins = pluggy.PluginManager(specs.PROJECT)
        self._plugins.add_hookspecs(specs)
        self._left_out: list[str] = []

    @classmethod
    def installed(cls) -> tuple[Hooks, list[str]]:
        """The hooks of every installed distribution.

        Returns:
            The hooks, and a note for each plugin that could not be loaded.

        Raises:
            PluginError: One could not be loaded, and `AGENTIX_STRICT_PLUGINS` is 1.
        """
        hooks, notes = cls(), []
        for info in plugins("hooks"):
            try:
                found = import_plugin(info)
                with blamed(f"the hooks {info.label} were found"):
                    made = found() if inspect.isclass(found) else found
                notes += hooks.register(made, name=info.label)
            except PluginError as exc:
                if os.environ.get(STRICT) == "1":
                    raise
                notes.append(exc.message)
                hooks._left_out.append(exc.message)
        return hooks, notes

    def register(self, plugin: object, *, name: str) -> list[str]:
        """Add an object or a module with functions marked `hookimpl`.

        Args:
            plugin: Whose functions to call.
            name: How to call it in notes.

        Returns:
            Notes: what of it cannot be used, and why.
        """
        try:
            registered = self._plugins.register(plugin, name=name)
        except (pluggy.PluginValidationError, ValueError) as exc:
            if self._plugins.get_plugin(name) is plugin:
                self._plugins.unregister(name=name)
            return self._without(f"hooks of {name} are left out: {exc}")
        notes = []
        for caller in self._plugins.get_hookcallers(plugin) or ():
            reason = _unusable(caller, name)
            if not caller.has_spec():
                notes.append(f"{name} implements {caller.name}, which this version of agentix does not call")
            elif reason is not None:
                self._plugins.unregister(name=registered)
                return self._without(f"hooks of {name} are left out: {caller.name} {reason}")
        return notes

    def call(self, name: str, **arguments: Any) -> list[str]:
        """Tell every plugin.

        Args:
            name: The hook, such as `agentix_trial_started`.
            **arguments: All that its specification names.

        Returns:
            A note for each hook that failed.

        Raises:
            PluginNotFound: There is no such hook.
            TypeError: The arguments are not those of its specification.
        """
        caller = getattr(self._plugins.hook, name, None)
        if caller is None or not caller.has_spec():
            raise PluginNotFound(f"there is no hook {name!r}")
        if missing := set(caller.spec.argnames) ^ set(arguments):
            raise TypeError(f"{name}: these arguments are missing or unknown: {', '.join(sorted(missing))}")
        notes = []
        for implementation in reversed(caller.get_hookimpls()):
            try:
                implementation.function(*(arguments[argument] for argument in implementation.argnames))
            except (Exception, SystemExit) as exc:  # an observer cannot break a run
                notes.append(f"hook {name} of {implementation.plugin_name} failed: {said(exc)}")
        return notes

    def redaction_patterns(self) -> dict[str, str]:
        """Ask every plugin what else has to be taken out of what is published.

        Returns:
            Regular expressions that were checked, by the kind that they are counted as.

        Raises:
            PluginBroken: A plugin fails, or what it gives cannot be used, or there is one that could not be loaded and
                may have had something to say. Nothing may be published then.
        """
        # Whoever never publishes need not load what looks for secrets.
        from agentix.redaction.extra_patterns import checked_kind, checked_pattern

        if self._left_out:
            raise PluginBroken(
                f"what has to be taken out of what is published is not known: {self._left_out[0]}",
                hint="Repair or uninstall that plugin.",
            )
        patterns: dict[str, str] = {}
        for implementation in self._plugins.hook.agentix_redaction_patterns.get_hookimpls():
            name = f"agentix_redaction_patterns of {implementation.plugin_name}"
            try:
                given = implementation.function()
                if not isinstance(given, Mapping):
                    raise TypeError(f"it returned {type(given).__name__}, not a mapping of kinds to patterns")
                for kind, pattern in dict(given).items():
                    if kind in patterns:
                        raise ValueError(f"another plugin gives the kind {kind!r} too")
                    patterns[checked_kind(kind, where=name)] = checked_pattern(pattern, where=name).pattern
            except ConfigError as exc:
                raise PluginBroken(exc.message, hint=exc.hint) from exc
            except (Exception, SystemExit) as exc:
                raise PluginBroken(f"{name} failed: {said(exc)}", hint="Repair or uninstall that plugin.") from exc
        return patterns

    def _without(self, note: str) -> list[str]:
        self._left_out.append(note)
        return [note]


def _unusable(caller: pluggy.HookCaller, name: str) -> str | None:
    for implementation in caller.get_hookimpls():
        if implementation.plugin_name == name:
            if implementation.hookwrapper or implementation.wrapper:
                return "is a wrapper, and hooks are plain functions"
            if inspect.iscoroutinefunction(implementation.function):
                return "is async, and hooks are plain functions"
    return None
