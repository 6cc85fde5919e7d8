"""Cases that are directories of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agentix.plugins.experiments.cases.finding import NoCase, find_cases


@dataclass(frozen=True, kw_only=True)
class Located:
    """A directory that an entry stands for."""

    label: str
    """Its path as it was written, a pattern filled in."""
    directory: Path


def locate(path: str, *, file: Path) -> tuple[Located, ...]:
    """The directories that a local path stands for: in the working directory, else beside the file.

    Raises:
        NoCase: Neither has any.
    """
    written = str(Path(path).expanduser())
    roots = tuple(dict.fromkeys((Path.cwd(), file.absolute().parent)))
    absent = ""
    for root in roots:
        try:
            found = find_cases(root, written)
        except NoCase as error:
            if error.there:
                raise
            absent = str(error)
            continue
        except OSError as error:
            raise NoCase(f"cannot be read: {error.filename}: {error.strerror}") from error
        return tuple(Located(label=label, directory=(root / label).resolve()) for label in found)
    places = "" if Path(written).is_absolute() else f" (looked in {' and '.join(str(root) for root in roots)})"
    raise NoCase(absent + places, there=False)
