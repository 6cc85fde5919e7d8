"""`bundle.json`: what a bundle is, and every file of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from agentix.bundle.reference import parse_tag
from agentix.errors import BundleError

FILE = "bundle.json"
LARGEST = 256 << 20
"""The most bytes that a description may have."""

_FROZEN = ConfigDict(frozen=True, extra="forbid")
_PARTS = frozenset({"", ".", ".."})
_LINES = json.JSONEncoder(ensure_ascii=False)
_NOT_HASHED = ("name", "tag", "digest")

Kind = Literal["file", "program", "link", "dir"]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Entry(BaseModel):
    """One file of a bundle; a directory is listed only where it is empty."""

    model_config = _FROZEN

    path: str
    kind: Kind = "file"
    size: Annotated[int, Field(ge=0)] = 0
    sha256: Sha256 | None = None
    """Of the content; links and directories have none."""
    target: str | None = None
    """Of a link, relative, and never out of the tree."""

    @model_validator(mode="after")
    def _consistent(self) -> Entry:
        if (self.sha256 is not None) != (self.kind in ("file", "program")):
            raise ValueError("only files have a sha256")
        if (self.target is not None) != (self.kind == "link"):
            raise ValueError("only links have a target")
        check_inside(self.path)
        if self.target is not None:
            check_link(self.path, self.target)
        return self


class Project(BaseModel):
    """The project that a bundle was built from."""

    model_config = _FROZEN

    name: str
    version: str
    modules: tuple[str, ...] = ()
    """Names that it adds to the top level of `site`."""


class Description(BaseModel):
    """The content of bundle.json."""

    model_config = _FROZEN

    schema_version: Literal[1] = 1
    name: str
    tag: str
    """Name and tag that it was built under first; the store may know it by others."""
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    platform: str
    """Such as `linux/amd64`."""
    python: str
    """Major and minor version."""
    libc: str | None = None
    """Such as `glibc-2.36`, where the bundle has machine code for Python; `None` where it runs on any."""
    project: Project | None = None
    packages: dict[str, str] = Field(default_factory=dict)
    """Version of each distribution in `site`."""
    tools: dict[str, str] = Field(default_factory=dict)
    """What each command in `bin` comes from."""
    entries: tuple[Entry, ...] = ()

    @field_validator("entries")
    @classmethod
    def _in_order(cls, value: tuple[Entry, ...]) -> tuple[Entry, ...]:
        paths = [entry.path for entry in value]
        if paths != sorted(set(paths)):
            raise ValueError("the entries are not in order, or one is there twice")
        return value

    @model_validator(mode="after")
    def _named(self) -> Description:
        parse_tag(f"{self.name}:{self.tag}")
        return self

    @model_validator(mode="after")
    def _true(self) -> Description:
        if self.digest != digest_of(self.model_dump(mode="json")):
            raise ValueError("the digest is not that of what is listed")
        return self

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.entries)

    @classmethod
    def of(cls, **fields: Any) -> Description:
        """A description with its digest."""
        draft = cls.model_construct(digest="", **fields).model_dump(mode="json")
        return cls(digest=digest_of(draft), **fields)

    @classmethod
    def parse(cls, data: bytes, *, where: str) -> Description:
        """Read bundle.json.

        Raises:
            BundleError: It is not one, is not true to itself, or was written by a newer version.
        """
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            if place == "schema_version":
                raise BundleError(
                    f"{where} is of another schema version", hint="use the agentix that built it, or a newer one"
                ) from None
            what = ": ".join(text for text in (place, first["msg"].removeprefix("Value error, ")) if text)
            raise BundleError(f"{where} is damaged: {what}", hint="build or import it again") from None

    def to_bytes(self) -> bytes:
        """The content of bundle.json."""
        data = self.model_dump(mode="json")
        entries = [entry.model_dump(mode="json", exclude_defaults=True) for entry in self.entries]
        head = json.dumps({**data, "entries": []}, indent=1, ensure_ascii=False)[: -len("[]\n}")]
        lines = ",\n".join("  " + _LINES.encode(entry) for entry in entries)
        return f"{head}[\n{lines}\n ]\n}}\n".encode()


def digest_of(data: dict[str, Any]) -> str:
    """SHA-256 over everything but the names: canonical JSON, sorted keys, entries in order."""
    kept = {key: value for key, value in data.items() if key not in _NOT_HASHED}
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"sha256:{hashlib.sha256(text.encode('ascii')).hexdigest()}"


def check_inside(path: str) -> None:
    """Refuse a path that is not a plain one below the tree.

    Raises:
        ValueError: It is absolute, has dots or is not normal.
    """
    # Called for every file of a bundle, of which there may be tens of thousands.
    if not path or path.startswith("/") or "\0" in path or not _PARTS.isdisjoint(path.split("/")):
        raise ValueError(f"{path!r} is no path below a bundle")
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"{path!r} is not UTF-8") from None


def check_link(path: str, target: str) -> None:
    """Refuse a link that leads out of the tree.

    Raises:
        ValueError: It does.
    """
    pure = PurePosixPath(target)
    depth = len(PurePosixPath(path).parts) - 1
    for part in pure.parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            break
    if not target or pure.is_absolute() or depth < 0 or "\0" in target:
        raise ValueError(f"the link {path} leads out of the bundle, to {target}")
