"""The step `dataset`: what may be published of a run as rows, with a card that says where they come from."""

from agentix.plugins.steps.standard.dataset.step import Dataset, DatasetInputs

__all__ = ["Dataset", "DatasetInputs"]
