"""Reading results.jsonl: streaming, strict, and forgiving only about a torn end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from agentix.errors import RecordsDamaged
from agentix.records.plain_files import open_plain
from agentix.records.record import Record

_TRIAL_ID = re.compile(rb'"trial_id"\s*:\s*"([^"\\]+)"')


@dataclass
class Scan:
    """Reads the records of one file; what it found out about the end is known once it is exhausted.

    Raises:
        RecordsDamaged: While iterating: a line other than a torn last one is no record.
    """

    path: Path
    end: int = 0
    """Offset behind the last good record."""
    lines: int = 0
    torn: bytes = b""
    """What lies behind `end`: the start of a record whose writer was killed."""
    unterminated: bool = False
    """Whether the last good record lacks its newline."""
    _seen: dict[str, int] = field(default_factory=dict)

    @property
    def torn_trial_id(self) -> str | None:
        """The trial of the torn record, where it is still legible."""
        match = _TRIAL_ID.search(self.torn)
        return match.group(1).decode("utf-8", "replace") if match else None

    def __iter__(self) -> Iterator[Record]:
        try:
            file = open_plain(self.path)
        except FileNotFoundError:
            return
        offset = 0
        with file:
            line = file.readline()
            while line:
                following = file.readline()
                self.lines += 1
                offset += len(line)
                if line.strip():
                    record = self._parse(line, last=not following)
                    if record is None:
                        self.torn = line
                        return
                    yield record
                self.end = offset
                self.unterminated = not line.endswith(b"\n")
                line = following

    def _parse(self, line: bytes, *, last: bool) -> Record | None:
        try:
            record = Record.model_validate_json(line)
        except ValidationError as error:
            if last and (not line.endswith(b"\n") or b"\0" in line):
                return None
            raise RecordsDamaged(
                f"{self.path}:{self.lines}: not a record: {_reason(error)}",
                hint="The file was left as it is. Repair or remove that line, or use another --id.",
            ) from None
        first = self._seen.setdefault(record.trial_id, self.lines)
        if first != self.lines:
            raise RecordsDamaged(
                f"{self.path}:{self.lines}: trial {record.trial_id} has a record in line {first} already",
                hint="The file was left as it is. Remove one of the two lines, or use another --id.",
            )
        return record


def _reason(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]
