"""The inputs of the step `ship_rclone`."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from agentix.plugins.transports.rclone.environment import TUNING

_FLAGS = TUNING - {"http-proxy"}  # which may have a password in it, and everybody can see a command line
_REMOTE = re.compile(r"[\w.+@][\w.+@ -]*(?<! )")
_FLAG = re.compile(r"--([a-z0-9-]+)(?:=.*)?", re.DOTALL)


class RcloneInputs(BaseModel):
    """Where to, and how."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dest: str
    """`remote:path`; the remote is one that rclone's own configuration has."""
    exact: bool = False
    """Whether `dest` is the place itself; else what is sent goes to EXPERIMENT/RUN or EXPERIMENT/RUN/TRIAL below it."""
    verify: Literal["checksum", "size", "download"] = "checksum"
    """How to find out that the files have arrived: by their checksums, where the remote has none by reading them back;
    `download` reads them back in any case; `size` takes equal sizes for enough where there are no checksums."""
    env_auth: bool = False
    """Whether the remote signs in with the variables of its cloud, such as AWS_PROFILE, so that rclone gets them."""
    flags: tuple[str, ...] = ()
    """Options of rclone that tune how it sends, each as `--name` or `--name=value`."""
    timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Seconds that sending, and each look at what is there, may take. Rclone itself gives up a connection on which
    nothing moves for five minutes."""

    @field_validator("dest")
    @classmethod
    def _a_named_remote(cls, dest: str) -> str:
        remote, colon, path = dest.partition(":")
        if remote == "" and colon:
            raise ValueError(
                "a remote cannot be described in dest, where its secrets would be seen: "
                "define it in rclone.conf or by RCLONE_CONFIG_<NAME>_TYPE and so on, and write NAME:path"
            )
        if not colon or "/" in remote:
            raise ValueError(f"{dest!r} names no remote of rclone: write it as remote:path, such as onedrive:rollouts")
        if "," in remote or "=" in remote:
            raise ValueError(
                "dest takes no options for the remote, which could be secrets: "
                "put them into rclone.conf or RCLONE_CONFIG_<NAME>_<OPTION>"
            )
        if _REMOTE.fullmatch(remote) is None:
            raise ValueError(f"{remote!r} is no name of a remote; `rclone listremotes` shows those that there are")
        if ".." in path.split("/"):
            raise ValueError(f"there may be no `..` in the path of dest: {path!r}")
        if any(ord(char) < 32 for char in path):
            raise ValueError(f"there may be no control characters in the path of dest: {path!r}")
        return dest

    @field_validator("flags")
    @classmethod
    def _only_tuning(cls, flags: tuple[str, ...]) -> tuple[str, ...]:
        for flag in flags:
            found = _FLAG.fullmatch(flag)
            if found is None:
                raise ValueError("a flag is written as --name or --name=value, such as --transfers=16")
            if found[1] not in _FLAGS:
                raise ValueError(
                    f"--{found[1]} is none of the flags that can be given here: {', '.join(sorted(_FLAGS))}. "
                    "Options of a remote belong into rclone.conf or RCLONE_CONFIG_<NAME>_<OPTION>"
                )
        return flags

    def target(self, key: str) -> str:
        """Where the files go.

        Args:
            key: A name for what is sent that nothing else has, of one or more parts.
        """
        if self.exact:
            return self.dest
        return self.dest + ("" if self.dest.endswith((":", "/")) else "/") + key

    @property
    def remote(self) -> str:
        """The remote alone, with its colon."""
        return self.dest.partition(":")[0] + ":"
