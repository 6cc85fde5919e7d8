"""Import what an entry point names, and turn whatever goes wrong there into one error that says whose it is."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

from agentix.errors import AgentixError, PluginBroken, PluginIncompatible
from agentix.registry.info import PluginInfo
from agentix.registry.kinds import CORE, KINDS

if TYPE_CHECKING:
    from stevedore.driver import DriverManager


def import_plugin(info: PluginInfo) -> object:
    """What the plugin's entry point names.

    What the import prints goes to stderr, so that it cannot get into a command's output.

    Raises:
        PluginIncompatible: It was built for another agentix; nothing of it was imported.
        PluginBroken: Importing it failed; the cause is chained.
    """
    if info.state == "incompatible":
        raise PluginIncompatible(
            f"the {info.kind} {info.label} cannot be used: {info.cause}",
            hint=f"pip install --upgrade {CORE} {info.distribution}",
        )
    with blamed(f"the {info.kind} {info.name} is provided by {info.distribution} {info.version} ({info.target})"):
        found: object = _driver(info).extensions[0].plugin
    return found


@contextlib.contextmanager
def blamed(subject: str) -> Iterator[None]:
    """Run a plugin's code; an exception of it becomes `PluginBroken` about the subject."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except AgentixError:
        raise
    except (Exception, SystemExit) as exc:
        raise PluginBroken(f"{subject} but failed to load: {said(exc)}", hint="-v shows the traceback") from exc


def said(exc: BaseException) -> str:
    """Type and text of an exception."""
    text = str(exc)
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__


def _driver(info: PluginInfo) -> DriverManager[object]:
    from stevedore.driver import DriverManager

    point = EntryPoint(name=info.name, value=info.target, group=KINDS[info.kind].group)

    class Chosen(DriverManager[object]):
        # stevedore's own list comes from a cache on disk and does not know distributions.
        def list_entry_points(self) -> list[EntryPoint]:
            return [point]

    return Chosen(namespace=point.group, name=point.name, on_missing_entrypoints_callback=None)
