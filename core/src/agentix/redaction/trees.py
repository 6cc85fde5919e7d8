"""A copy of a tree without secrets."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from agentix.files import listed
from agentix.redaction.files import redacted_file
from agentix.redaction.names import ends_within, free_name
from agentix.redaction.pieces import unchecked
from agentix.redaction.results import RedactionResult
from agentix.redaction.spans import MASK

if TYPE_CHECKING:
    from agentix.redaction.redactor import Redactor


def redacted_tree(
    redactor: Redactor,
    source: Path,
    target: Path,
    *,
    skip: Collection[str] = (),
    check: Callable[[], None] | None = None,
) -> RedactionResult:
    """A copy of a directory; see `Redactor.tree`."""
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise FileExistsError(f"{target} is not empty")
    target.chmod(0o755)
    done = _Done()
    skipped = {str(PurePosixPath(path)) for path in skip}
    waiting = [(b"", target)]
    while waiting:
        place, into = waiting.pop()
        entries = listed(os.fsencode(source), place)
        # A directory at a time: a new name must be none that another one there has.
        taken = {os.path.basename(os.fsdecode(entry.name)) for entry in entries}  # noqa: PTH119
        for entry in entries:
            relative = os.fsdecode(entry.name)
            old = os.path.basename(relative)  # noqa: PTH119
            if relative in skipped:
                continue
            if check is not None:
                check()
            shown = redactor.text(relative, ips=False)
            if entry.kind not in ("file", "directory"):
                done.left_out[shown] = entry.kind
                continue
            name = _clean_name(redactor, relative, old, taken)
            taken.add(name)
            if entry.kind == "directory":
                (into / name).mkdir()
                (into / name).chmod(0o755)
                waiting.append((entry.name, into / name))
            else:
                made = redacted_file(redactor, entry.below(source), into / name, name=old, check=check or unchecked)
                done.add(made, shown)
            if name != old:
                done.renamed[shown] = str((into / name).relative_to(target))
    return done.result()


def _clean_name(redactor: Redactor, relative: str, name: str, taken: Collection[str]) -> str:
    masked = redactor.text(name, ips=redactor.rules.ips_in_logs)
    if masked != name:
        return free_name(masked, taken)
    return free_name(MASK, taken) if ends_within(redactor.secrets, relative, name) else name


@dataclass
class _Done:
    counts: Counter[str] = field(default_factory=Counter)
    refused: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0

    def add(self, one: RedactionResult, shown: str) -> None:
        self.counts += Counter(one.counts)
        self.refused |= dict.fromkeys([shown] * bool(one.refused), *one.refused.values())
        self.left_out |= dict.fromkeys([shown] * bool(one.left_out), *one.left_out.values())
        self.files += one.files
        self.bytes += one.bytes

    def result(self) -> RedactionResult:
        return RedactionResult(
            counts=dict(self.counts),
            refused=self.refused,
            left_out=self.left_out,
            renamed=self.renamed,
            files=self.files,
            bytes=self.bytes,
        )
