"""The provider `docker` keeps the contract of providers, on a real engine."""

from __future__ import annotations

from typing import Any

import pytest

from agentix.api import SandboxConfig
from agentix.providers.docker import DockerConfig, DockerProvider
from agentix.testing import ProviderCase, ProviderContract


@pytest.mark.real
def test_there_is_an_engine_to_try_the_contract_on(images: Any) -> None:
    """The contract's own tests may skip what does not apply; where the engine is missing, this one says so."""
    assert images.busybox


class OnEngine(ProviderContract):
    options = DockerConfig()
    image = ""

    @pytest.fixture(autouse=True)
    def _image(self, images: Any) -> None:
        type(self).image = images.bash

    def plugin(self) -> DockerProvider:
        return DockerProvider(self.options)

    def case(self) -> ProviderCase:
        return ProviderCase(
            config=SandboxConfig(image=self.image), another=lambda: DockerProvider(self.options), timeout_s=120
        )


class TestDocker(OnEngine):
    pass


class TestDockerHardened(OnEngine):
    options = DockerConfig(hardened=True)


del OnEngine, ProviderContract
