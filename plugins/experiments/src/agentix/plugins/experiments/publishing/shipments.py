"""What a step ships: where it stands in the staging tree, and a last look at it."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from agentix.api import Secrets, ShipRefused, scan
from agentix.cli.api import size
from agentix.plugins.experiments.publishing.places import NotPublished
from agentix.plugins.experiments.publishing.trees import plain_files

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Shipment:
    """What goes."""

    path: Path
    files: int
    bytes: int

    def told(self, root: Path) -> str:
        """What it is, for people: `dataset (3 files, 12 kB)`.

        Args:
            root: The staging tree.
        """
        place = str(self.path.relative_to(root))
        files = f"{self.files} {'file' if self.files == 1 else 'files'}"
        return f"{'everything' if place == '.' else place} ({files}, {size(self.bytes)})"


def nearest(places: Collection[str]) -> str | None:
    """The one place that holds all that a step has published; `None` where that is only the tree itself."""
    return posixpath.commonpath(places) or None if places else None


def look_up(root: Path, place: str | None, *, default: str | None) -> Shipment:
    """Find what is to be shipped, and how much that is.

    Args:
        root: The staging tree.
        place: What the file says; `None` where it says nothing.
        default: What goes then; `None` for the whole tree.

    Raises:
        ShipRefused: There is no such thing, or there is nothing in it.
    """
    chosen = default if place is None else place
    path = root if chosen is None else root / chosen
    where = chosen or "the run"
    try:
        if not path.resolve().is_relative_to(root.resolve()):
            raise ShipRefused(f"{where}: leads out of what is published")
        sizes = [entry.size for entry in plain_files(path)]
    except FileNotFoundError:
        raise ShipRefused(
            f"{where}: nothing of that name is published",
            hint=f"There is {', '.join(sorted(entry.name for entry in root.iterdir()))}.",
        ) from None
    except NotPublished as error:
        raise ShipRefused(str(error)) from None
    if not sizes:
        raise ShipRefused(f"{where}: there is nothing in it")
    return Shipment(path=path, files=len(sizes), bytes=sum(sizes))


def look_over(path: Path, secrets: Secrets, *, check: Callable[[], None] | None = None) -> None:
    """Look for known secrets in exactly what is to be shipped, in archives and in names too.

    Args:
        path: What is to be shipped.
        secrets: What is known of secrets.
        check: Called often; what it raises ends the work.

    Raises:
        ShipRefused: There is one; the message says where, and never what.
    """
    found = [str(one) for one in scan(path, secrets, check=check)]
    if path.is_dir() and (forms := {form for *_, form in secrets.spans(os.fsencode(path.name))}):
        found.append(f".: {', '.join(sorted(forms))} (name)")
    if found:
        shown = "; ".join(found[:_SHOWN])
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise ShipRefused(f"{secrets.text(path.name)} is not shipped, it holds a known secret: {shown}{more}")
