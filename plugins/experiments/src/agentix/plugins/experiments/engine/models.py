"""Declared models: what agents are told of them, and their keys."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import replace

import anyio
import anyio.to_thread

from agentix.api import LLM, EnvFailed, Price, Rollout, Secrets, Usage
from agentix.cli.api import log
from agentix.plugins.experiments.documents import LLMSpec

_KEY_COMMAND_S = 60.0
_MILLION = 1_000_000
NEEDS_KEY = "needs_key"
"""What a manifest says of a model that has a key."""


def llm_of(spec: LLMSpec) -> LLM:
    """A model as executors and agents get it, without its key."""
    price = spec.price
    return LLM(
        name=spec.name,
        model=spec.model,
        api=spec.api,
        base_url=spec.base_url,
        parameters=dict(spec.parameters),
        price=None if price is None else Price(input=price.input, output=price.output, cached=price.cached),
    )


class Keys:
    """The keys of models: looked up when first needed, kept in memory, written nowhere.

    Args:
        host_env: This machine's variables.
    """

    def __init__(self, *, host_env: Mapping[str, str] | None = None) -> None:
        self._host_env = os.environ if host_env is None else host_env
        self.masks = Secrets()
        """The keys that may be in what is written: those of this machine's variables, and those looked up."""
        self._found: dict[str, str] = {}
        self._turn = anyio.Lock()

    def expect(self, specs: Iterable[LLMSpec]) -> None:
        """Keep the keys that these models have in variables out of what is written from now on."""
        for spec in specs:
            if spec.api_key_env is not None:
                self.masks.add(self._host_env.get(spec.api_key_env, "").strip())

    async def get(self, spec: LLMSpec) -> str | None:
        """The key of a model; `None` where the model needs none.

        Raises:
            EnvFailed: It cannot be had.
        """
        if spec.api_key_env is None and spec.api_key_cmd is None:
            return None
        async with self._turn:
            if spec.name not in self._found:
                key = self._found[spec.name] = await self._look_up(spec)
                if not self.masks.add(key):
                    log.warning("llm_spec %s: its key is too short to be kept out of what is written", spec.name)
        return self._found[spec.name]

    def known(self, spec: LLMSpec) -> str | None:
        """The key, if it was looked up already."""
        return self._found.get(spec.name)

    async def _look_up(self, spec: LLMSpec) -> str:
        if spec.api_key_env is not None:
            value = self._host_env.get(spec.api_key_env, "").strip()
            if not value:
                raise EnvFailed(
                    f"llm_spec {spec.name}: the variable {spec.api_key_env} is not set",
                    detail="missing_key",
                    hint=f"Set it, or name another one in api_key_env of {spec.name}.",
                )
            return value
        assert spec.api_key_cmd is not None
        program = spec.api_key_cmd[0]
        try:
            with anyio.fail_after(_KEY_COMMAND_S):
                done = await anyio.run_process(spec.api_key_cmd, stdin=subprocess.DEVNULL, check=False)
        except (OSError, TimeoutError) as error:
            why = "took too long" if isinstance(error, TimeoutError) else f"cannot be started: {error.strerror}"
            raise EnvFailed(f"llm_spec {spec.name}: api_key_cmd ({program}) {why}", detail="missing_key") from None
        value = done.stdout.decode("utf-8", "replace").strip()
        # What it printed may be half a key: it is not repeated.
        if done.returncode != 0 or not value:
            how = f"exit status {done.returncode}" if done.returncode else "it printed nothing"
            raise EnvFailed(f"llm_spec {spec.name}: api_key_cmd ({program}): {how}", detail="missing_key")
        return value


def priced(rollout: Rollout, llm: LLM | None) -> Rollout:
    """The rollout with its cost by the declared price, where nobody else knew it."""
    usage = rollout.usage
    if usage is None or usage.cost_usd is not None or llm is None or llm.price is None:
        return rollout
    cost = cost_of(usage, llm.price)
    return rollout if cost is None else replace(rollout, usage=replace(usage, cost_usd=cost))


def cost_of(usage: Usage, price: Price) -> float | None:
    """US dollars; `None` where a price or a number of tokens that matters is not known.

    Tokens that were written to a cache cost what the others of a prompt do.
    """
    if usage.input is None or usage.output is None:
        return None
    total = 0.0
    for tokens, dollars in (
        (usage.input, price.input),
        (usage.cache_write or 0, price.input),
        (usage.cache_read or 0, price.cached if price.cached is not None else price.input),
        (usage.output, price.output),
    ):
        if tokens and dollars is None:
            return None
        total += tokens * (dollars or 0.0)
    return total / _MILLION
