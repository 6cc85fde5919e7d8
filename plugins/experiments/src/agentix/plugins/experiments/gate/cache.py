"""Verdicts on cases, kept beside the runs: what was found once about some bytes need not be found again."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

FILE = "gate-cache.json"
MOST = 20_000
"""How many verdicts are kept, the latest."""


class CachedVerdict(BaseModel):
    """What a step concluded on a case."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ok: bool
    message: str = ""
    lines: tuple[str, ...] = ()
    case: str
    """Label of the case, for who reads the file; the key alone decides."""
    sha256: str
    step: str
    run_id: str
    at: str


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    verdicts: dict[str, CachedVerdict] = Field(default_factory=dict)


class VerdictCache:
    """The file with the verdicts. Several processes may use it at once.

    Args:
        path: The file, which need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notice: str | None = None
        """Why the file as it was read last holds no verdicts, where there is one that should."""

    def read(self) -> dict[str, CachedVerdict]:
        """All verdicts by their keys; a file that is damaged or of a newer version holds none."""
        self.notice = None
        if not self.path.is_file():
            return {}
        try:
            return dict(_File.model_validate_json(self.path.read_bytes()).verdicts)
        except OSError as error:
            self.notice = f"{self.path} cannot be read ({error.strerror}): no verdict of an earlier run is known"
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            why = f"{where}: {first['msg']}" if where else first["msg"]
            self.notice = (
                f"{self.path} is damaged or of a newer version ({why}): no verdict of an earlier run is known; "
                f"it is kept as {self._aside.name} once there is a new one"
            )
        return {}

    @property
    def _aside(self) -> Path:
        return self.path.with_name(f"{self.path.name}.damaged")

    def add(self, verdicts: Mapping[str, CachedVerdict]) -> None:
        """Keep some more; those that another process has added meanwhile stay.

        Raises:
            OSError: The file cannot be written.
        """
        if not verdicts:
            return
        with self._locked():
            kept = self.read()
            if self.notice is not None:
                self.path.replace(self._aside)
            for key in verdicts:
                kept.pop(key, None)  # the latest is the last
            kept.update(verdicts)
            self._write(dict(list(kept.items())[-MOST:]))

    def _write(self, verdicts: Mapping[str, CachedVerdict]) -> None:
        data: dict[str, Any] = {
            "schema_version": 1,
            "verdicts": {key: verdict.model_dump(mode="json") for key, verdict in verdicts.items()},
        }
        temp = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        try:
            with temp.open("w", encoding="utf-8") as file:
                json.dump(data, file, indent=1, ensure_ascii=True)
                file.flush()
                os.fsync(file.fileno())
            temp.replace(self.path)
        finally:
            with suppress(FileNotFoundError):
                temp.unlink()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # The file itself is replaced, so that a lock on it would hold nobody.
        with self.path.with_name(f".{self.path.name}.lock").open("a") as file:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            yield
