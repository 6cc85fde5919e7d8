"""What an external executor answered: a code, a number, or only how it ended."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentix.api import Failure, FailureCode, open_plain

FAILURE_FILE = "failure.txt"
REWARD_FILE = "reward.txt"
REWARD_JSON = "reward.json"

_LONGEST = 1 << 20
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_CODES = frozenset(
    code
    for code in FailureCode
    if code not in (FailureCode.CANCELLED, FailureCode.STEP_FAILED, FailureCode.REDACT_FAILED)
)
TRY_LATER = 75
"""The exit status that asks for another try."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A reward, or a failure, never both."""

    reward: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    failure: Failure | None = None
    notes: tuple[str, ...] = ()


class Unusable(ValueError):
    """There is an answer, and it cannot be read as one."""


def read_answer(
    directory: Path, *, exit_code: int | None, signal: str | None = None, timed_out: bool = False, said: str = ""
) -> Answer:
    """Read an answer, the most specific part first: the declared failure, the reward, the exit status.

    Args:
        directory: What was `$OUT_DIR`. Only files in it are read, never what a link leads to.
        exit_code: Exit status; `None` where there is none.
        signal: The name of that signal.
        timed_out: Whether it was killed at its time limit.
        said: The end of what it printed.
    """
    ending = _ending(exit_code, signal, timed_out=timed_out)
    if directory.is_symlink() or not directory.is_dir():
        # What is behind a link in its place is not what the executor was asked to write.
        lost = ["$OUT_DIR is no directory any more"]
        return Answer(failure=_unanswered(lost, ending, exit_code, timed_out=timed_out, said=said))
    declared = _declared(directory)
    if declared is not None:
        return Answer(failure=declared)
    unusable = []
    for name, read in ((REWARD_FILE, _reward_text), (REWARD_JSON, _reward_json)):
        try:
            found = read(directory / name)
        except Unusable as error:
            unusable.append(f"{name}: {error}")
            continue
        if found is not None:
            reward, metrics = found
            notes = [f"{note}, and is not used" for note in unusable]
            notes += [f"the executor {ending} after it had left a reward"] if ending else []
            return Answer(reward=reward, metrics=metrics, notes=tuple(notes))
    return Answer(failure=_unanswered(unusable, ending, exit_code, timed_out=timed_out, said=said))


def _unanswered(unusable: list[str], ending: str, exit_code: int | None, *, timed_out: bool, said: str) -> Failure:
    tail = f": {said}" if said else ""
    if unusable:
        message = f"no usable reward ({'; '.join(unusable)})"
        return _failure(FailureCode.VERIFIER_ERROR, message, "invalid_reward")
    if timed_out:
        return _failure(FailureCode.HOST_ERROR, f"the executor {ending}{tail}", "command_timeout")
    if exit_code == TRY_LATER:
        return _failure(FailureCode.HOST_ERROR, f"the executor asks to be tried again later{tail}", "try_later")
    if ending:
        return _failure(FailureCode.ENV_FAILED, f"the executor {ending} without an answer{tail}", "no_answer")
    message = f"the executor ended well and left neither {REWARD_FILE} nor {REWARD_JSON}{tail}"
    return _failure(FailureCode.VERIFIER_ERROR, message, "no_reward")


def _ending(exit_code: int | None, signal: str | None, *, timed_out: bool) -> str:
    """How a program ended, where it did not end well."""
    if timed_out:
        return "was killed at its time limit"
    if signal is not None or exit_code is None:
        return f"was ended by {signal}" if signal is not None else "ended without an exit status"
    return "" if exit_code == 0 else f"ended with exit status {exit_code}"


def _declared(directory: Path) -> Failure | None:
    try:
        text = _text(directory / FAILURE_FILE)
    except Unusable as error:
        return _failure(FailureCode.HOST_ERROR, f"{FAILURE_FILE}: {error}", "unknown_code")
    if text is None:
        return None
    first, _, rest = text.strip().partition("\n")
    word, message = first.strip(), rest.strip()
    if word not in _CODES:
        said = f"{FAILURE_FILE} names the unknown code {word[:80]!r}" if word else f"{FAILURE_FILE} names no code"
        return _failure(FailureCode.HOST_ERROR, f"{said}: {message}" if message else said, "unknown_code")
    return _failure(FailureCode(word), message or "the executor did not say why", None)


def _failure(code: FailureCode, message: str, detail: str | None) -> Failure:
    boundary = "agent" if code.is_agents else "scorer" if code is FailureCode.VERIFIER_ERROR else "host"
    return Failure(code=code, message=message, detail=detail, boundary=boundary)  # type: ignore[arg-type]


def _reward_text(path: Path) -> tuple[float, dict[str, float]] | None:
    text = _text(path)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text.strip()):
        raise Unusable(f"{text.strip()[:40]!r} is not one number")
    return _in_range(float(text)), {}


def _reward_json(path: Path) -> tuple[float, dict[str, float]] | None:
    text = _text(path)
    if text is None:
        return None
    try:
        data: Any = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Unusable(f"is not JSON: {error}") from None
    values = data if isinstance(data, dict) else {"reward": data}
    numbers = {key: float(v) for key, v in values.items() if isinstance(v, int | float) and not isinstance(v, bool)}
    numbers = {key: value for key, value in numbers.items() if math.isfinite(value)}
    if "reward" not in numbers:
        raise Unusable("has no number `reward`")
    return _in_range(numbers.pop("reward")), numbers


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _in_range(value: float) -> float:
    if not (math.isfinite(value) and 0 <= value <= 1):
        raise Unusable(f"{value:g} is not between 0 and 1")
    return value


def _text(path: Path) -> str | None:
    """The text of a plain file; `None` where there is none.

    Raises:
        Unusable: There is something else, or too much of it.
    """
    try:
        file = open_plain(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unusable(f"cannot be read: {error.strerror}") from None
    with file:
        if (size := os.fstat(file.fileno()).st_size) > _LONGEST:
            raise Unusable(f"has {size} bytes")
        try:
            return file.read(_LONGEST + 1).decode()
        except UnicodeDecodeError as error:
            raise Unusable(f"is no text: byte {error.start} is not UTF-8") from None
