"""How a bundle is named: `name:tag`, `sha256:…` or a prefix of it, a path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from agentix.errors import BundleError

DEFAULT_TAG = "latest"
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")

_NAME = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"[0-9a-f]{6,64}")
_LONGEST = 128


@dataclass(frozen=True)
class TagRef:
    """A name in the local store."""

    name: str
    tag: str = DEFAULT_TAG

    def __str__(self) -> str:
        return f"{self.name}:{self.tag}"


@dataclass(frozen=True)
class DigestRef:
    """A digest, or enough of its first digits to be the only one."""

    digits: str

    def __str__(self) -> str:
        return f"sha256:{self.digits}"


@dataclass(frozen=True)
class PathRef:
    """A tar that `agentix bundle export` wrote, or a directory that one was unpacked to."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


BundleRef = TagRef | DigestRef | PathRef


def parse_bundle_ref(text: str) -> BundleRef:
    """What a reference names.

    Raises:
        BundleError: It is in none of the forms.
    """
    if text.startswith("sha256:"):
        digits = text.removeprefix("sha256:").lower()
        if not _DIGEST.fullmatch(digits):
            raise BundleError(f"bundle {text!r}: a digest is sha256: and 6 to 64 hexadecimal digits")
        return DigestRef(digits)
    if text.startswith(("/", ".", "~")) or "/" in text or text.endswith(ARCHIVES):
        return PathRef(Path(text).expanduser().absolute())
    return parse_tag(text)


def parse_tag(text: str) -> TagRef:
    """A name with its tag, `latest` where it has none.

    Raises:
        BundleError: It is not valid.
    """
    name, colon, tag = text.partition(":")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise BundleError(
            f"bundle {text!r}: {name!r} is no name",
            hint="a name has small letters and digits, with single . _ or - between them; a path starts with ./ or /",
        )
    if colon and not _TAG.fullmatch(tag):
        raise BundleError(
            f"bundle {text!r}: {tag!r} is no tag",
            hint="a tag has letters, digits, . _ and -, starts with none of . and -, and is at most 128 long",
        )
    return TagRef(name, tag or DEFAULT_TAG)
