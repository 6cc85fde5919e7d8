"""The secrets that this machine is known to hold, besides the keys of models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agentix.api import Secrets

_WORDS = frozenset(
    {
        "APIKEY",
        "AUTH",
        "AUTHORIZATION",
        "BEARER",
        "COOKIE",
        "COOKIES",
        "CREDENTIAL",
        "CREDENTIALS",
        "CREDS",
        "KEY",
        "KEYS",
        "PASS",
        "PASSPHRASE",
        "PASSWD",
        "PASSWORD",
        "PASSWORDS",
        "PAT",
        "SECRET",
        "SECRETS",
        "TOKEN",
        "TOKENS",
    }
)
_ENDINGS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD")
_OPTION = frozenset({"APIKEY", "COOKIE", "CREDENTIAL", "CREDENTIALS", "KEY", "PASSWD", "PASSWORD", "SECRET", "TOKEN"})
"""What the name of an option ends with whose value is a secret: `api_key_env` names a variable, and is none."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def looks_secret(name: str) -> bool:
    """Whether the value of a variable of this name is to be kept out of what is published."""
    return any(word in _WORDS for word in _words(name)) or name.upper().rstrip("0123456789_-").endswith(_ENDINGS)


def _words(name: str) -> list[str]:
    return [word.upper() for word in _WORD.findall(name)]


def learn(
    secrets: Secrets,
    *,
    host_env: Mapping[str, str],
    variables: Iterable[str] = (),
    options: Iterable[tuple[str, Any]] = (),
) -> tuple[str, ...]:
    """Add what this machine and the file are known to hold.

    Args:
        secrets: What to add to.
        host_env: This machine's variables; those whose names look secret are.
        variables: More of them, named by the user.
        options: Options of plugins, each with where they stand; those whose names look secret are.

    Returns:
        What the user should know: values that are not looked for.
    """
    named = dict.fromkeys(variables)
    unset = [name for name in named if not host_env.get(name)]
    notices = [f"redact: the variable {name} is not set, so its value is not looked for" for name in unset]
    short = []
    for name, value in sorted(host_env.items()):
        if value and (name in named or (looks_secret(name) and not _is_path(value))) and not secrets.add(value.strip()):
            short.append(name)
    for where, given in options:
        for path, value in _secret_options(given, where):
            if not secrets.add(value):
                short.append(path)
    if short:
        what = ", ".join(short)
        notices.append(f"too short to be told from other text, and so not looked for in what is published: {what}")
    return tuple(notices)


def _is_path(value: str) -> bool:
    """A variable such as SSH_AUTH_SOCK says where a secret is, and is none."""
    return value.startswith("/") and Path(value).exists()


def _secret_options(given: Any, path: str, *, secret: bool = False) -> Iterator[tuple[str, str]]:
    if isinstance(given, Mapping):
        for key, value in given.items():
            yield from _secret_options(value, f"{path}.{key}", secret=secret or _names_secret(str(key)))
    elif isinstance(given, list | tuple):
        for number, value in enumerate(given):
            yield from _secret_options(value, f"{path}[{number}]", secret=secret)
    elif isinstance(given, str) and secret and given and not given.startswith("{{"):
        yield path, given


def _names_secret(option: str) -> bool:
    words = _words(option)
    return bool(words) and words[-1] in _OPTION
