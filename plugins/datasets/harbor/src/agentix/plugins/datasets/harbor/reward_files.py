"""The directory that the tests write the reward to: made for them alone, read with care, watched for a moment."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import anyio

from agentix.api import Sandbox
from agentix.plugins.datasets.harbor.places import VERIFIER_LOGS, make_anew
from agentix.plugins.datasets.harbor.reward import MAX_REWARD_BYTES, BadReward

_JSON, _TEXT = "reward.json", "reward.txt"
_MOMENT_S = 0.3


class Meddled(OSError):
    """Something besides the tests changed what they write, or the place that they write to."""


@dataclass(frozen=True, kw_only=True)
class RewardFiles:
    """The content of both files; `None` where there is no such file."""

    json: bytes | None
    text: bytes | None


@dataclass(frozen=True)
class RewardPlace:
    """`/logs/verifier`, made anew for one run of the tests."""

    sandbox: Sandbox
    mark: str
    """Name of a file that is in this directory and in none that an agent puts in its place."""

    @classmethod
    async def make(cls, sandbox: Sandbox) -> RewardPlace:
        """Make the directory anew.

        Raises:
            OSError: It cannot be done, as where a process goes on writing to it.
        """
        await make_anew(sandbox, VERIFIER_LOGS)
        place = cls(sandbox, f".made-for-{uuid4().hex}")
        await sandbox.write_file(f"{VERIFIER_LOGS}/{place.mark}", b"")
        return place

    async def take(self) -> RewardFiles:
        """Read both files, and no more of them than a reward can have.

        Where something is still running, they are taken away for a moment, and others put in their place for another,
        which shows whether it writes or removes them. One that is too large is removed: it would be copied with the
        verifier's logs, and be the largest of them.

        Raises:
            BadReward: One of them is a link, a directory or anything but a file, or too large to be a reward.
            Meddled: What was read need not be what the tests wrote.
        """
        watched = await self._may_change()
        bad: BadReward | None = None
        files = RewardFiles(json=None, text=None)
        try:
            files = await self._read()
        except BadReward as error:
            bad = error
            await self._remove_large()
        if watched:
            await self._watch(files)
        await self.sandbox.remove(f"{VERIFIER_LOGS}/{self.mark}")
        if bad is not None:
            raise bad
        return files

    async def _remove_large(self) -> None:
        for path in (f"{VERIFIER_LOGS}/{_JSON}", f"{VERIFIER_LOGS}/{_TEXT}"):
            try:
                await self.sandbox.read_file(path, limit=MAX_REWARD_BYTES)
            except OSError as error:
                if error.errno == errno.EFBIG:
                    await self.sandbox.remove(path)

    async def _watch(self, files: RewardFiles) -> None:
        paths = {f"{VERIFIER_LOGS}/{_JSON}": files.json, f"{VERIFIER_LOGS}/{_TEXT}": files.text}
        for path in paths:
            await self.sandbox.remove(path)
        await self._moment()
        for path in paths:
            if await self.sandbox.exists(path):
                raise Meddled(f"{path} was written after the tests had ended")
        # What removes a file before each time that it writes it may be just between the two: what is there has to stay.
        stand_in = uuid4().hex.encode()
        for path in paths:
            await self.sandbox.write_file(path, stand_in)
        await self._moment()
        # What goes on replacing the directory was perhaps about to, when the files were read.
        try:
            found = await self._read()
        except BadReward as error:
            raise Meddled(f"{VERIFIER_LOGS} was changed after the tests had ended: {error}") from None
        for name, content in ((_JSON, found.json), (_TEXT, found.text)):
            if content != stand_in:
                raise Meddled(f"{VERIFIER_LOGS}/{name} was changed after the tests had ended")
        for path, data in paths.items():
            if data is None:
                await self.sandbox.remove(path)
            else:
                await self.sandbox.write_file(path, data)

    async def _moment(self) -> None:
        await anyio.sleep(_MOMENT_S)

    async def _may_change(self) -> bool:
        """Whether anything is left that could write: a process, or a service beside the sandbox."""
        return self.sandbox.config.compose is not None or bool(await self.sandbox.count_processes())

    async def _read(self) -> RewardFiles:
        """Both files, in one look at the directory above, where a link in its place is seen as one.

        Raises:
            BadReward: One of them is none that a reward can be in.
            Meddled: It is not the directory that was made, but a link, another one, or nothing.
        """
        logs, own = posixpath.split(VERIFIER_LOGS)
        members = [own, *(f"{own}/{name}" for name in (_JSON, _TEXT, self.mark))]
        with tempfile.TemporaryDirectory(prefix="agentix-reward-") as spare:
            report = await self.sandbox.download(
                logs, spare, members=[name.encode() for name in members], max_bytes=2 * MAX_REWARD_BYTES
            )
            refused = {posixpath.basename(refusal.path): refusal.reason for refusal in report.refused}
            return await anyio.to_thread.run_sync(_taken, Path(spare, own), self.mark, refused)


def _taken(directory: Path, mark: str, refused: dict[bytes, str]) -> RewardFiles:
    if directory.is_symlink() or not (directory / mark).is_file():
        raise Meddled(f"{VERIFIER_LOGS} was replaced while the tests ran")
    return RewardFiles(json=_file(directory / _JSON, refused), text=_file(directory / _TEXT, refused))


def _file(path: Path, refused: dict[bytes, str]) -> bytes | None:
    reason = refused.get(path.name.encode())
    if reason is not None:
        if reason == os.strerror(errno.ENOENT):
            return None
        raise BadReward(f"{path.name}: {reason}")
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        raise BadReward(f"{path.name} is a {'directory' if stat.S_ISDIR(mode) else 'link'}")
    if path.stat().st_size > MAX_REWARD_BYTES:
        raise BadReward(f"{path.name} has more than {MAX_REWARD_BYTES} bytes")
    return path.read_bytes()
