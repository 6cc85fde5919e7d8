"""Names of steps: each is the name of a directory, on any host."""

from __future__ import annotations

import re
import unicodedata

_FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')


def checked_step_name(name: str) -> str:
    """Give back a name that can be a directory's.

    Raises:
        ValueError: It cannot.
    """
    if not name.strip() or name in {".", ".."} or name.endswith((".", " ")) or _FORBIDDEN.search(name):
        raise ValueError(f"{name!r} cannot be the name of a directory, which a step's name has to be")
    if len(name.encode("utf-8", "surrogatepass")) > 255:
        raise ValueError("a step's name has at most 255 bytes")
    return name


def step_name_key(name: str) -> str:
    """What two names have in common that are one name on some file systems."""
    return unicodedata.normalize("NFC", name).casefold()
