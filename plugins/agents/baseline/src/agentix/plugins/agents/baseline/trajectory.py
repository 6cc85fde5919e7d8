"""Picks up the trajectory that a program left."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from agentix.api import SandboxGone, TrajectoryError, Usage, check_trajectory, read_trajectory

if TYPE_CHECKING:
    from agentix.api import Sandbox

FILE = "trajectory.json"
_MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A trajectory, or why there is none."""

    document: Mapping[str, Any] | None = None
    usage: Usage | None = None
    info: Mapping[str, Any] = field(default_factory=dict)


async def take_trajectory(sandbox: Sandbox, path: str, log_dir: Path | None, *, expected: bool) -> Taken:
    """Read and check a trajectory; whatever is wrong with it is told, not raised.

    Args:
        sandbox: Where it is.
        path: The file.
        log_dir: Keeps the file as it is, valid or not.
        expected: Whether it is worth a remark that there is none.
    """
    try:
        data = await sandbox.read_file(path, limit=_MAX_BYTES)
    except FileNotFoundError:
        return Taken(info={"trajectory_note": f"there is no {path}"} if expected else {})
    except SandboxGone:
        return Taken(info={"trajectory_note": "the sandbox was lost before the trajectory was read"})
    except OSError as error:
        return Taken(info={"trajectory_note": f"{path} could not be read: {error}"})
    return await to_thread.run_sync(_checked, data, path, log_dir)


def _checked(data: bytes, path: str, log_dir: Path | None) -> Taken:
    with TemporaryDirectory(prefix="agentix-") if log_dir is None else nullcontext(log_dir) as place:
        file = Path(place) / FILE
        file.write_bytes(data)
        try:
            document = read_trajectory(file)
            usage = check_trajectory(document).usage
        except TrajectoryError as error:
            return Taken(info={"trajectory_note": str(error).replace(str(file), path)})
    return Taken(document=document, usage=usage)
