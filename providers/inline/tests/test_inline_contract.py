from __future__ import annotations

from agentix.providers.inline import InlineProvider
from agentix.testing import ProviderContract


class TestInline(ProviderContract):
    def plugin(self) -> InlineProvider:
        return InlineProvider()
