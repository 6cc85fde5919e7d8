"""Takes the reward files out of a sandbox, and sees whether something goes on writing them."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

import anyio

from agentix.api import Sandbox
from agentix.plugins.datasets.harbor.places import VERIFIER_LOGS
from agentix.plugins.datasets.harbor.reward import MAX_REWARD_BYTES, BadReward

_JSON, _TEXT = "reward.json", "reward.txt"
_MOMENT_S = 0.3


@dataclass(frozen=True, kw_only=True)
class RewardFiles:
    """The content of both files; `None` where there is no such file."""

    json: bytes | None
    text: bytes | None


async def read_reward_files(sandbox: Sandbox) -> RewardFiles:
    """Read both files, and no more of them than a reward can have.

    Raises:
        BadReward: One of them is a link, a directory or anything but a file, or is too large to be a reward.
    """
    with tempfile.TemporaryDirectory(prefix="agentix-reward-") as spare:
        members = [_JSON.encode(), _TEXT.encode()]
        try:
            report = await sandbox.download(VERIFIER_LOGS, spare, members=members, max_bytes=2 * MAX_REWARD_BYTES)
        except OSError as error:
            raise BadReward(f"{VERIFIER_LOGS} cannot be read: {error.strerror or error}") from error
        refused = {refusal.path: refusal.reason for refusal in report.refused}
        return await anyio.to_thread.run_sync(_taken, Path(spare), refused)


async def is_settled(sandbox: Sandbox, files: RewardFiles) -> bool:
    """Whether nothing writes the reward any more, seen by taking the files away for a moment."""
    for name in (_JSON, _TEXT):
        await sandbox.remove(f"{VERIFIER_LOGS}/{name}")
    await anyio.sleep(_MOMENT_S)
    for name in (_JSON, _TEXT):
        if await sandbox.exists(f"{VERIFIER_LOGS}/{name}"):
            return False
    for name, data in ((_JSON, files.json), (_TEXT, files.text)):
        if data is not None:
            await sandbox.write_file(f"{VERIFIER_LOGS}/{name}", data)
    return True


def _taken(directory: Path, refused: dict[bytes, str]) -> RewardFiles:
    return RewardFiles(json=_file(directory / _JSON, refused), text=_file(directory / _TEXT, refused))


def _file(path: Path, refused: dict[bytes, str]) -> bytes | None:
    reason = refused.get(path.name.encode(), refused.get(b""))
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
