"""Harbor-format tasks as a dataset of agentix."""

from agentix.plugins.datasets.harbor.dataset import HarborConfig, HarborDataset

__all__ = ["HarborConfig", "HarborDataset"]
