"""What code in a sandbox finds of the bundle that is mounted there."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentix.bundle.description import Description, Entry

MOUNT_POINT = "/agentix/bundle"


@dataclass(frozen=True, kw_only=True)
class MountedBundle:
    """A bundle as it is seen inside a sandbox."""

    description: Description
    path: str = MOUNT_POINT
    """Its tree inside; the tree on the host where the provider has no file system of its own."""

    @property
    def digest(self) -> str:
        """`sha256:` and 64 digits."""
        return self.description.digest

    @property
    def mounted(self) -> bool:
        """Whether it lies at its usual place inside, with the base runtime beside it."""
        return self.path == MOUNT_POINT

    @property
    def site(self) -> str:
        """The directory of its Python packages; add it with `site.addsitedir`."""
        return posixpath.join(self.path, "site")

    @property
    def lib(self) -> str:
        """The directory of shared libraries that its extension modules need and the base runtime lacks."""
        return posixpath.join(self.path, "lib")

    @property
    def bin(self) -> str:
        """The directory of its commands, first on the PATH of every command."""
        return posixpath.join(self.path, "bin")

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every file of it, by its path below `path`."""
        return self.description.entries

    @property
    def modules(self) -> tuple[str, ...]:
        """Names that its project adds to the top level of `site`."""
        return () if self.description.project is None else self.description.project.modules
