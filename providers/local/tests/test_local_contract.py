from __future__ import annotations

from agentix.providers.local import LocalProvider
from agentix.testing import ProviderContract


class TestLocal(ProviderContract):
    def plugin(self) -> LocalProvider:
        return LocalProvider()
