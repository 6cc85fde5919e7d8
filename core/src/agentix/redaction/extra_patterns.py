"""Checks the patterns that users and plugins give, before anything runs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

from agentix.errors import ConfigError
from agentix.redaction.known import Span

LONGEST = 4096
"""Characters of the texts that a pattern is tried on."""
LONG_S = 0.012
"""Seconds after which it is looked at whether the time grows faster than the text."""
NOTICED_S = 0.001
"""Seconds below which it does not matter."""
FLAGS = re.MULTILINE


def checked_pattern(pattern: object, *, where: str) -> re.Pattern[str]:
    """Compile a pattern and try it on texts that are made to be hard for it.

    Raises:
        ConfigError: It is none, can match an empty text, or takes time that grows faster than the text.
    """
    if not isinstance(pattern, str):
        raise ConfigError(f"a pattern is a text with a regular expression, not {type(pattern).__name__}", where=where)
    try:
        compiled = re.compile(pattern, FLAGS)
        parsed = import_module("re._parser").parse(pattern, FLAGS)
    except (re.error, RecursionError, OverflowError) as error:
        raise ConfigError(
            f"{pattern!r} is no regular expression: {error}",
            where=where,
            hint="Write one as Python's re module takes it.",
        ) from error
    if parsed.getwidth()[0] == 0:
        raise ConfigError(
            f"{pattern!r} matches an empty text too, which is everywhere",
            where=where,
            hint="Let it match at least one character: + in the place of *.",
        )
    for prefix, body in _hard(parsed):
        if _slow(compiled, prefix, body):
            raise ConfigError(
                f"{pattern!r} takes far too long on some texts, such as many times {body[:20]!r}",
                where=where,
                hint="Bound what repeats, as in \\w{1,100}, and let no repetition stand in another.",
            )
    return compiled


def pattern_spans(patterns: Iterable[tuple[str, re.Pattern[str]]], data: bytes) -> list[Span]:
    """What patterns with their kinds match; of one with a group named `secret`, only that."""
    text = data.decode("utf-8", "surrogateescape")
    found = []
    for kind, pattern in patterns:
        group = "secret" if "secret" in pattern.groupindex else 0
        # Characters before a place are not bytes before it.
        chars = size = 0
        for match in pattern.finditer(text):
            start, end = match.span(group)
            if start < end:
                if start < chars:
                    chars = size = 0
                begin = size + _size(text[chars:start])
                chars, size = end, begin + _size(text[start:end])
                found.append((begin, size, kind))
    return found


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


def checked_kind(kind: object, *, where: str) -> str:
    """The name under which what a pattern matches is counted.

    Raises:
        ConfigError: It is not in lower case, digits and `_`.
    """
    if not isinstance(kind, str) or not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", kind):
        raise ConfigError(
            f"{kind!r} is no name for a kind of secret",
            where=where,
            hint="Use lower-case letters, digits and _, as in internal_host.",
        )
    return kind


def _slow(compiled: re.Pattern[str], prefix: str, body: str) -> bool:
    """Whether time grows faster than the text does; how fast this machine is makes no difference."""
    for end in ("", "\0", "\n!"):

        def seconds(times: int, end: str = end) -> float:
            return _seconds(compiled, prefix + body * times + end)

        times, most = 8, LONGEST // len(body)
        # Small steps: where each character doubles the time, this stops in time.
        while times < most:
            if seconds(times) > LONG_S and _grows(seconds, times, by=2, than=3):
                return True
            times += max(1, times // 8)
        if most >= 8 and _grows(seconds, most, by=4, than=8):
            return True
    return False


def _grows(seconds: Callable[[int], float], times: int, *, by: int, than: int) -> bool:
    """Whether a text that is `by` times as long takes more than `than` times as long."""
    # The least is what no other process has had a part in.
    whole = min(seconds(times) for _ in range(2))
    return whole > NOTICED_S and whole > than * min(seconds(times // by) for _ in range(3))


def _seconds(compiled: re.Pattern[str], text: str) -> float:
    began = time.thread_time()
    for _ in compiled.finditer(text):
        pass
    return time.thread_time() - began


def _hard(parsed: Any) -> Iterator[tuple[str, str]]:
    """Texts to repeat, each with one to put before: bodies of the repetitions, and what single items match."""
    tried: set[tuple[str, str]] = set()
    for prefix, body in (*_repeated(parsed, ""), *(("", char) for char in _chars(parsed))):
        if body and len(body) <= 256 and len(tried) < 64 and (prefix, body) not in tried:
            tried.add((prefix, body))
            yield prefix, body


def _repeated(items: Sequence[Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, given in items:
        word = str(name)
        for inner in _inner(word, given):
            if word in {"MAX_REPEAT", "MIN_REPEAT"} and given[1] > 1:
                yield prefix, _sample(inner)
                yield "", _sample(inner)
            yield from _repeated(inner, prefix)
        prefix += _sample([(name, given)])


def _inner(word: str, given: Any) -> list[Any]:
    if word in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
        return [given[2]]
    if word == "SUBPATTERN":
        return [given[3]]
    if word == "BRANCH":
        return list(given[1])
    if word in {"ASSERT", "ASSERT_NOT"}:
        return [given[1]]
    return [given] if word == "ATOMIC_GROUP" else []


def _sample(items: Sequence[Any]) -> str:
    """A text that the items match, or nearly."""
    text = ""
    for name, given in items:
        word = str(name)
        if word in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
            text += _sample(given[2]) * max(1, min(given[0], 64))
        elif word in {"LITERAL", "NOT_LITERAL", "ANY", "IN", "CATEGORY", "RANGE"}:
            text += next(iter(_single(word, given)), "a")
        elif word not in {"ASSERT", "ASSERT_NOT", "AT"}:
            text += next((_sample(inner) for inner in _inner(word, given)), "")
    return text


def _chars(items: Sequence[Any]) -> Iterator[str]:
    for name, given in items:
        word = str(name)
        yield from _single(word, given)
        for inner in _inner(word, given):
            yield from _chars(inner)


_CATEGORIES = {"CATEGORY_DIGIT": "0", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a"}


def _single(word: str, given: Any) -> Iterator[str]:
    if word == "LITERAL":
        yield chr(given)
    elif word == "RANGE":
        yield chr(given[0])
    elif word == "CATEGORY":
        yield _CATEGORIES.get(str(given), "-")
    elif word in {"ANY", "NOT_LITERAL"}:
        yield "a" if given != ord("a") else "b"
    elif word == "IN":
        for name, inner in given:
            if str(name) == "NEGATE":
                yield "~"
            else:
                yield from _single(str(name), inner)
