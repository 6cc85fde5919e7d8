"""The dataset keeps what its interface promises, on the example tasks, which it solves and fails as they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentix.api import load
from agentix.plugins.datasets.harbor import HarborConfig, HarborDataset
from agentix.testing import DatasetCase, DatasetContract

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples" / "tasks"
local = pytest.importorskip("agentix.providers.local", reason="the provider local is not installed")


@pytest.mark.real
class TestHarbor(DatasetContract):
    @pytest.fixture(params=["asyncio"])
    def anyio_backend(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    def plugin(self) -> HarborDataset:
        return HarborDataset(HarborConfig(path=(str(EXAMPLES),)))

    def case(self) -> DatasetCase:
        return DatasetCase(provider=local.LocalProvider(), instances=5)


def test_it_is_found_by_its_name_and_its_options_are_checked() -> None:
    dataset: Any = load("dataset", "harbor", {"path": str(EXAMPLES), "skip_invalid": "true"}, where="--dataset")
    assert isinstance(dataset, HarborDataset)
    assert dataset.config.skip_invalid is True
    assert [instance["instance_id"] for instance in dataset.instances()] == [
        "fix-total",
        "keep-stock",
        "sealed-summary",
        "tidy-contacts",
        "write-greeting",
    ]
