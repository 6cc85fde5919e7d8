"""Where a case came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def pinned(case: Mapping[str, Any]) -> str:
    """Where a case came from, as exactly as somebody else can use: no path of this machine."""
    pin = {} if case.get("source") == "local" else case.get("pin") or {}
    named = [str(pin[key]) for key in ("repo", "commit", "path") if pin.get(key)]
    return " ".join(named) or str(case.get("source", ""))
