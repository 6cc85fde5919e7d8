"""What a scorer returned, checked: an invalid reward is an error and never a 0."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any

from agentix.errors import VerifierError

_DEPTH = 100


def check_score(raw: object) -> dict[str, Any]:
    """A score with `reward`, `resolved`, and what else it brought, all of it data that strict JSON can hold.

    Raises:
        VerifierError: There is no valid reward, or something else in it is not valid; the message says where.
    """
    if not isinstance(raw, Mapping):
        raise _invalid(f"the scorer returned {_shown(raw)}, not a dict")
    score = {_key(key, "score"): _data(value, str(key), _DEPTH) for key, value in raw.items()}
    resolved = score.get("resolved")
    if resolved is not None and not isinstance(resolved, bool):
        raise _invalid(f"resolved is {_shown(resolved)}, not true or false")
    if score.get("reward") is not None:
        reward = _number(score["reward"], "reward")
    elif resolved is None:
        raise _invalid("the scorer gave no reward")
    else:
        reward = float(resolved)
    metrics = score.get("metrics")
    if metrics is not None:
        if not isinstance(metrics, dict):
            raise _invalid(f"metrics is {_shown(metrics)}, not a dict")
        score["metrics"] = {name: _number(value, f"metrics.{name}") for name, value in metrics.items()}
    return {**score, "reward": reward, "resolved": reward >= 1 if resolved is None else resolved}


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _invalid(f"{where} is {_shown(value)}, not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _invalid(f"{where} is {_shown(value)}, not a finite number")
    return number


def _data(value: object, where: str, depth: int) -> Any:
    if depth == 0:
        raise _invalid(f"{where} is nested too deeply")
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        if not math.isfinite(number):
            raise _invalid(f"{where} is {_shown(value)}, not a finite number")
        return number
    if isinstance(value, Mapping):
        return {_key(key, where): _data(item, f"{where}.{key}", depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_data(item, f"{where}[{number}]", depth - 1) for number, item in enumerate(value)]
    raise _invalid(f"{where} is {_shown(value)}, which JSON cannot hold")


def _key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise _invalid(f"{where} has the key {_shown(key)}, which is not a string")
    return key


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:
        text = "?"
    return f"{type(value).__name__} {text[:60]}"


def _invalid(message: str) -> VerifierError:
    return VerifierError(message, detail="invalid_reward")
