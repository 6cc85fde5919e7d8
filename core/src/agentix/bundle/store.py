"""Where bundles are kept on this machine: trees by digest, names that point at them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agentix.bundle.cache import cache_error, open_folder
from agentix.bundle.description import FILE, LARGEST, Description
from agentix.bundle.listing import TIME_NS, first_change
from agentix.bundle.reference import TagRef
from agentix.errors import BundleError, HostError

FOLDER = "bundles"
UNFINISHED = ".new-"
_FULL = {errno.ENOSPC, errno.EDQUOT}


class Store:
    """The local store. Whatever is interrupted leaves at most a directory that nobody looks at.

    Args:
        top: Its directory.
    """

    def __init__(self, top: Path) -> None:
        self.top = top
        self.trees = top / "trees"
        self.tags = top / "tags"
        self.layers = top / "layers"
        self.builders = top / "builders"

    def tree(self, digest: str) -> Path:
        """Where the tree of a digest lies, or would."""
        return self.trees / digest.removeprefix("sha256:")

    def digests(self) -> list[str]:
        """The digests of all trees."""
        return sorted(f"sha256:{path.name}" for path in self.trees.iterdir() if path.is_dir())

    def names(self) -> dict[TagRef, str]:
        """What each name points at."""
        found = {}
        for folder in sorted(self.tags.iterdir()):
            for path in sorted(folder.iterdir()):
                digest = _read(path)
                if digest is not None and not path.name.startswith("."):
                    found[TagRef(folder.name, path.name)] = digest
        return found

    def digest_of(self, ref: TagRef) -> str | None:
        """What a name points at."""
        return _read(self.tags / ref.name / ref.tag)

    def point(self, ref: TagRef, digest: str) -> None:
        """Let a name point at a digest; from one moment to the next."""
        folder = self.tags / ref.name
        with self.changing():
            folder.mkdir(exist_ok=True)
            descriptor, fresh = tempfile.mkstemp(prefix=UNFINISHED, dir=folder)
            try:
                with os.fdopen(descriptor, "w", encoding="ascii") as file:
                    file.write(f"{digest}\n")
                    file.flush()
                    os.fchmod(descriptor, 0o644)
                    os.fsync(descriptor)
                Path(fresh).replace(folder / ref.tag)
            except BaseException:
                Path(fresh).unlink(missing_ok=True)
                raise

    def forget(self, ref: TagRef) -> None:
        """Remove a name; what it points at stays."""
        with self.changing():
            (self.tags / ref.name / ref.tag).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                (self.tags / ref.name).rmdir()

    def read(self, digest: str) -> Description:
        """The description of a tree in the store.

        Raises:
            BundleError: There is none, or it is damaged.
        """
        description = read_description(self.tree(digest))
        if description.digest != digest:
            raise BundleError(f"the bundle {digest} is damaged: its description is that of {description.digest}")
        return description

    def install(self, fresh: Path, description: Description) -> Path:
        """Move a sealed tree to its place; one that is there and intact stays."""
        path = self.tree(description.digest)
        with self.changing():
            if self._is_intact(description):
                return path
            (fresh / FILE).write_bytes(description.to_bytes())
            (fresh / FILE).chmod(0o444)
            os.utime(fresh / FILE, ns=(TIME_NS, TIME_NS))
            if path.exists():
                self._move_away(path)
            fresh.rename(path)
        return path

    def _is_intact(self, description: Description) -> bool:
        try:
            there = self.read(description.digest)
        except BundleError:
            return False
        return first_change(self.tree(there.digest), there.entries) is None

    def discard(self, path: Path) -> bool:
        """Remove a tree, unless somebody uses it."""
        with self.changing(), (self.trees / f"{path.name}.lock").open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            self._move_away(path)
        return True

    def hold(self, digest: str) -> int:
        """Keep a tree from being removed for as long as the returned descriptor is open, this process at most."""
        descriptor = os.open(
            self.trees / f"{self.tree(digest).name}.lock", os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644
        )
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return descriptor

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Held for a moment by whoever changes trees or names."""
        with _locked(self.top / "lock", fcntl.LOCK_EX):
            yield

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Path]:
        """A directory for something unfinished, on the store's own disk, gone at the end.

        Raises:
            HostError: The disk is full or cannot be written.
        """
        try:
            with _locked(self.top / "building", fcntl.LOCK_SH):
                path = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=self.top))
                path.chmod(0o755)
                try:
                    yield path
                finally:
                    shutil.rmtree(path, ignore_errors=True)
        except OSError as error:
            raise full(self.top) if error.errno in _FULL else cache_error(self.top, error) from error

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether nobody builds; if so, nobody begins to before the end."""
        with (self.top / "building").open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    def _move_away(self, path: Path) -> None:
        """Remove a tree so that there is never half of one under its name."""
        if path.exists():
            gone = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=self.top)) / path.name
            path.rename(gone)
            shutil.rmtree(gone.parent, ignore_errors=True)


def open_store() -> Store:
    """The store of this user, made where it does not exist.

    Raises:
        HostError: It cannot be made, or somebody else could change what lies in it.
    """
    store = Store(open_folder(FOLDER))
    try:
        for folder in (store.trees, store.tags, store.layers, store.builders):
            if not folder.is_dir():
                folder.mkdir(exist_ok=True)
                folder.chmod(0o755)
    except OSError as error:
        raise cache_error(store.top, error) from error
    return store


def read_description(tree: Path) -> Description:
    """The description of a tree anywhere.

    Raises:
        BundleError: There is none, or it is damaged.
    """
    path = tree / FILE
    try:
        if path.stat().st_size > LARGEST:
            raise BundleError(f"{path} is damaged: it has more than {LARGEST >> 20} MiB")
        return Description.parse(path.read_bytes(), where=str(path))
    except FileNotFoundError:
        raise BundleError(
            f"{tree} is no bundle: it has no {FILE}", hint="build one: agentix build PATH -n NAME"
        ) from None
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}") from error


def full(top: Path) -> HostError:
    """The error for a disk that has no room."""
    return HostError(
        f"the disk of {top} is full",
        detail="disk_full",
        hint="make room: `agentix bundle gc`, `agentix cache prune`; or set AGENTIX_CACHE_DIR to another disk",
    )


@contextlib.contextmanager
def _locked(path: Path, how: int) -> Iterator[None]:
    with path.open("ab") as file:
        fcntl.flock(file, how)
        yield


def _read(path: Path) -> str | None:
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return text if text.startswith("sha256:") else None
