"""Errors about what the user gave: shown without a traceback, with exit code 2."""

from __future__ import annotations


class AgentixError(Exception):
    """Anything that agentix raises on purpose.

    Args:
        message: What is wrong and where.
        hint: What to do about it.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  {self.hint}"


class UsageError(AgentixError):
    """What the user gave is wrong; nothing was run."""


class ConfigError(UsageError):
    """A value is not valid; `where` is the path that the user typed, such as `--provider-opt network`."""

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message if where is None else f"{where}: {message}", hint=hint)
        self.where = where


class PluginError(UsageError):
    """A plugin cannot be had."""


class PluginNotFound(PluginError):
    """No installed plugin has that name."""


class PluginAmbiguous(PluginError):
    """Several installed plugins have that name."""


class PluginBroken(PluginError):
    """The plugin is installed, but loading it fails."""


class PluginIncompatible(PluginError):
    """The plugin was built for another version of agentix."""


class DatasetError(UsageError):
    """A dataset's own files are malformed, or two instances have one id."""


class RunError(UsageError):
    """A run directory cannot be used as asked."""


class RunLocked(RunError):
    """Another process writes to that run."""


class RunChanged(RunError):
    """A run is resumed with another configuration."""


class RecordsDamaged(RunError):
    """A results file is damaged other than by a torn last line; it was left as it is."""


class TrajectoryError(AgentixError):
    """A trajectory is not in the ATIF format; the message names the place in it."""


class ShipError(AgentixError):
    """Something was not shipped, or it is not known to have arrived; the same may work later."""


class ShipRefused(ShipError):
    """It will not be shipped until somebody changes something, so that trying again is of no use."""
