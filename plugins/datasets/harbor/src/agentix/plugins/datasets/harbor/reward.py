"""What a verifier's reward files say.

`reward.json` is a flat object of finite numbers, or one number; `reward.txt` is one number. `reward.json`
wins. Nothing is guessed: what is not exactly that is an error, never a reward. The format declares no range,
so any finite number is valid.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

MAX_REWARD_BYTES = 65536
"""The largest reward file that is read."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_SPACE = " \t\r\n"


class BadReward(ValueError):
    """A reward file does not say what the reward is."""


@dataclass(frozen=True, kw_only=True)
class Reward:
    """A valid reward and where it comes from."""

    value: float
    metrics: Mapping[str, float]
    """Every number of `reward.json` by its name; empty where the reward is one bare number."""
    source: Literal["reward.json", "reward.txt"]
    rule: str
    """`number`, `key reward`, `only key …`, `mean of n keys` or `reward_key …`."""
    other: str | None = None
    """What `reward.txt` says, where it disagrees with `reward.json`."""


def parse_text(data: bytes) -> float:
    """The number in `reward.txt`.

    Raises:
        BadReward: It is not one finite decimal number.
    """
    try:
        text = data.decode("ascii").strip(_SPACE)
    except UnicodeDecodeError:
        raise BadReward(f"{_shown(data)} is not a number") from None
    if not text:
        raise BadReward("it is empty")
    if not _NUMBER.fullmatch(text):
        raise BadReward(f"{_shown(data)} is not a number")
    return _finite(float(text), text)


def parse_json(data: bytes) -> float | dict[str, float]:
    """The numbers in `reward.json`.

    Raises:
        BadReward: It is not strict JSON, or neither a finite number nor a flat object of at least one.
    """
    try:
        text = data.decode("utf-8")
        if not text.strip(_SPACE):
            raise BadReward("it is empty")
        value = json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)
    except BadReward:
        raise
    except (ValueError, RecursionError) as error:
        raise BadReward(f"{_shown(data)} is not JSON: {error}") from None
    if not isinstance(value, dict):
        return parse_number(value)
    if not value:
        raise BadReward("its object has no keys")
    return {key: parse_number(item, key) for key, item in value.items()}


def read_reward(*, json_data: bytes | None, text_data: bytes | None, key: str | None = None) -> Reward:
    """Decide what the reward is.

    Args:
        json_data: Content of `reward.json`; `None` where there is no such file.
        text_data: Content of `reward.txt`, likewise.
        key: The key that the user chose. It does not concern a reward that is one bare number.

    Raises:
        BadReward: There is no valid reward; the message names the file.
    """
    if json_data is None:
        if text_data is None:
            raise BadReward("there is neither reward.json nor reward.txt")
        try:
            return Reward(value=parse_text(text_data), metrics={}, source="reward.txt", rule="number")
        except BadReward as error:
            raise BadReward(f"reward.txt: {error}") from None
    try:
        value = parse_json(json_data)
        chosen, rule = choose(value, key=key) if isinstance(value, dict) else (value, "number")
    except BadReward as error:
        raise BadReward(f"reward.json: {error}") from None
    metrics = value if isinstance(value, dict) else {}
    other = None if text_data is None else _disagreement(text_data, chosen)
    return Reward(value=chosen, metrics=metrics, source="reward.json", rule=rule, other=other)


def choose(metrics: Mapping[str, float], *, key: str | None = None) -> tuple[float, str]:
    """The one number that several metrics stand for, and the rule by which.

    Raises:
        BadReward: The user's key is not among them.
    """
    if key is not None:
        if key not in metrics:
            raise BadReward(f"it has no key {key!r}, which reward_key asks for; it has {', '.join(sorted(metrics))}")
        return metrics[key], f"reward_key {key}"
    if "reward" in metrics:
        return metrics["reward"], "key reward"
    if len(metrics) == 1:
        return next((value, f"only key {name}") for name, value in metrics.items())
    mean = math.fsum(value / len(metrics) for value in metrics.values())
    return _finite(mean, "the mean of the keys"), f"mean of {len(metrics)} keys"


def _disagreement(text_data: bytes, chosen: float) -> str | None:
    try:
        value = parse_text(text_data)
    except BadReward as error:
        return str(error)
    return None if value == chosen else repr(value)


def parse_number(value: Any, key: str | None = None) -> float:
    """A value of JSON as a finite number.

    Raises:
        BadReward: It is none; the message names the key.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        where = "" if key is None else f"{key!r}: "
        raise BadReward(f"{where}{_shown(value)} is not a number")
    try:
        return _finite(float(value), str(value))
    except (OverflowError, ValueError):
        where = "" if key is None else f"{key!r}: "
        raise BadReward(f"{where}the number is not finite") from None


def _finite(value: float, text: str) -> float:
    if not math.isfinite(value):
        raise BadReward(f"{_shown(text)} is not finite")
    return value


def _refuse(constant: str) -> float:
    raise BadReward(f"{constant} is not a finite number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise BadReward("a key occurs twice")
    for key in values:
        if any("\ud800" <= character <= "\udfff" for character in key):
            raise BadReward(f"the key {key!r} is not Unicode text")
    return values


def _shown(value: Any) -> str:
    text = repr(value.decode("utf-8", "replace")) if isinstance(value, bytes) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
