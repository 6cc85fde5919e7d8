"""Takes the reward files out of a sandbox, and sees whether something goes on writing them."""

from __future__ import annotations

from dataclasses import dataclass

from agentix.api import Sandbox
from agentix.plugins.datasets.harbor.places import VERIFIER_LOGS
from agentix.plugins.datasets.harbor.reward import MAX_REWARD_BYTES, BadReward

REWARD_JSON = f"{VERIFIER_LOGS}/reward.json"
REWARD_TEXT = f"{VERIFIER_LOGS}/reward.txt"

# `[` is built into every shell: nothing is started, and nothing of the file is read.
_KIND = 'if [ -L "$0" ]; then echo link; elif [ -f "$0" ]; then echo file; elif [ -e "$0" ]; then echo other; fi'


@dataclass(frozen=True, kw_only=True)
class RewardFiles:
    """The content of both files; `None` where there is no such file."""

    json: bytes | None
    text: bytes | None


async def read_reward_files(sandbox: Sandbox) -> RewardFiles:
    """Read both files.

    Raises:
        BadReward: One of them is a link, a directory or anything but a file, or is too large to be a reward.
    """
    return RewardFiles(json=await _read(sandbox, REWARD_JSON), text=await _read(sandbox, REWARD_TEXT))


async def _read(sandbox: Sandbox, path: str) -> bytes | None:
    name = path.rpartition("/")[2]
    kind = (await sandbox.exec(["sh", "-c", _KIND, path], output_limit=64)).text.strip()
    if not kind:
        return None
    if kind != "file":
        raise BadReward(f"{name} is {'a link' if kind == 'link' else 'no file'}")
    try:
        data = await sandbox.read_file(path, limit=MAX_REWARD_BYTES + 1)
    except OSError as error:
        raise BadReward(f"{name} cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_REWARD_BYTES:
        raise BadReward(f"{name} has more than {MAX_REWARD_BYTES} bytes")
    return data
