"""The step `archive`: packs what may be published of a trial, or of a whole run, into files."""

from agentix.plugins.steps.standard.archive.step import Archive, ArchiveInputs

__all__ = ["Archive", "ArchiveInputs"]
