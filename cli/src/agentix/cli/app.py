"""The command `agentix`: what runs is imported; so is what plugins add, to be listed with what it says of itself."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agentix.cli.version import version_option
from agentix.errors import PluginNotFound

COMMANDS: dict[str, tuple[str, str]] = {
    "rollout": ("agentix.cli.rollout", "Run an agent over a dataset and score what it did (the same as agentix-run)."),
    "show": ("agentix.cli.show", "Show a run or one of its trials."),
    "score": ("agentix.cli.score", "Score again what a run has kept."),
    "build": ("agentix.cli.build", "Build a project, its dependencies and tools into a bundle for sandboxes."),
    "bundle": ("agentix.cli.bundle", "List, show, export, import and remove bundles."),
    "images": ("agentix.cli.images", "Pull and build the images of tasks ahead of a run, list and remove them."),
    "plugins": ("agentix.cli.plugins", "List, show and check plugins."),
    "doctor": ("agentix.cli.doctor", "Check whether this machine can run rollouts."),
    "gc": ("agentix.cli.gc", "Delete the sandboxes of processes that died."),
    "cache": ("agentix.cli.cache", "Look after the cache."),
}
"""Name, module with the Typer app `app`, and help."""
_LONGEST = 160
"""Characters of a command's help in the list."""


class LazyGroup(TyperGroup):
    """A group whose commands are looked up by name; those of plugins come from their entry points."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Our own commands, then those of plugins."""
        return [*COMMANDS, *(name for name in plugin_commands() if name not in COMMANDS)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, imported; `None` where there is no such command."""
        if cmd_name in COMMANDS:
            return load_command(cmd_name)
        return plugin_command(cmd_name) if cmd_name in plugin_commands() else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first argument names; an unknown one is refused with the nearest known one."""
        if args[0] not in COMMANDS and args[0] not in (known := self.list_commands(ctx)):
            near = difflib.get_close_matches(args[0], known, n=1)
            ctx.fail(f"No such command {args[0]!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of commands; what is wrong with a plugin's costs its line only."""
        rows = [(name, text) for name, (_, text) in COMMANDS.items()]
        rows += [(name, _said(name, origin)) for name, origin in plugin_commands().items() if name not in COMMANDS]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _said(name: str, origin: str) -> str:
    """The first sentence of a plugin's command about itself, else where it comes from."""
    try:
        return plugin_command(name).get_short_help_str(limit=_LONGEST) or f"From {origin}."
    except Exception as error:
        return f"From {origin}, and cannot be loaded: {type(error).__name__}."


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.callback()
def root(version: Annotated[bool, version_option()] = False) -> None:
    """Run agents over tasks in sandboxes, score them, and keep numbers that mean something."""


def load_command(name: str) -> Any:
    """One of our own commands."""
    module = importlib.import_module(COMMANDS[name][0])
    return as_command(module.app)


def as_command(found: typer.Typer) -> Any:
    """A Typer app as a command that prints its help like ours."""
    found.rich_markup_mode = None
    return typer.main.get_command(found)


def plugin_commands() -> dict[str, str]:
    """Names of the commands that plugins add, and which distribution each comes from; none is imported."""
    from agentix.registry import plugins

    return {info.name: f"{info.distribution} {info.version}" for info in plugins("cli")}


def plugin_command(name: str) -> Any:
    """A command that a plugin adds.

    Raises:
        PluginError: It cannot be loaded; the message names the plugin.
    """
    from agentix.errors import PluginBroken
    from agentix.registry import import_plugin, plugins

    for info in plugins("cli"):
        if info.name == name:
            found = import_plugin(info)
            if not isinstance(found, typer.Typer):
                raise PluginBroken(f"{info.label} is no command: {info.target} is not a Typer app")
            return as_command(found)
    raise PluginNotFound(f"no installed plugin adds the command {name}")


def main(program: str, arguments: Sequence[str] | None = None) -> int:
    """Run a console script and return its exit code.

    Args:
        program: `agentix` or `agentix-run`.
        arguments: Those of this process by default.
    """
    from agentix.cli.entry import run_command

    def command() -> Any:
        return load_command("rollout") if program == "agentix-run" else typer.main.get_command(app)

    return run_command(command, sys.argv[1:] if arguments is None else arguments, program=program)
