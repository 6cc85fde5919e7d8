"""The transport itself: look what is there, copy what is not, and check that all of it has arrived."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import which

import anyio.to_thread

from agentix.api import (
    AgentUse,
    ExecResult,
    Limits,
    Receipt,
    Scope,
    ShipError,
    ShipRefused,
    StepContext,
    run_tool,
    without_logins,
)
from agentix.plugins.transports.rclone import environment
from agentix.plugins.transports.rclone.comparison import Comparison
from agentix.plugins.transports.rclone.exit_status import NOT_FOUND, NOTHING_TO_DO, failure
from agentix.plugins.transports.rclone.inputs import RcloneInputs
from agentix.plugins.transports.rclone.remotes import remote_problems
from agentix.plugins.transports.rclone.source import measure

_LOOK_S = 300.0
_COPIES = 2
"""A remote may lose one of several files that come at once, and rclone does not notice."""


class Rclone:
    """Copy to a remote of rclone; nothing is ever taken away there.

    Sending the same again sends nothing. Rclone finds its remotes and its credentials by itself.
    """

    scopes = frozenset({Scope.PER_TRIAL, Scope.PER_EXPERIMENT})
    Inputs = RcloneInputs

    def __init__(self) -> None:
        self.host_env: tuple[str, ...] = environment.host_env(os.environ)

    def check(
        self, inputs: RcloneInputs, *, agents: Sequence[AgentUse] = (), limits: Limits | None = None
    ) -> Iterable[str]:
        """Say whether the program is missing, or does not know the remote."""
        if which("rclone") is None:
            yield "there is no program rclone on the PATH: install it, see https://rclone.org/install/"
            return
        yield from remote_problems(inputs, environment.seen(self.host_env, env_auth=inputs.env_auth))

    def destination(self, source: Path, inputs: RcloneInputs, ctx: StepContext) -> str:
        """The remote, and the directory there."""
        return inputs.target(ctx.key)

    async def ship(self, source: Path, inputs: RcloneInputs, ctx: StepContext) -> Receipt:
        """Send it.

        Raises:
            ShipRefused: Rclone has no such remote, may not write to it, or is missing.
            ShipError: It has not arrived, or not whole.
        """
        size = await anyio.to_thread.run_sync(measure, source)
        target = inputs.target(ctx.key)
        if size.files == 0:
            ctx.say(f"there are no files to send to {target}")
            return Receipt(destination=target, files=0, bytes=0, details={"sent": 0})
        calls = _Calls(inputs, ctx, self.host_env)
        checksums = bool(await calls.checksums())
        read_back = inputs.verify == "download" or (inputs.verify == "checksum" and not checksums)
        before = await calls.compare(source, target, size.files, read_back=read_back)
        ctx.say(
            f"to {target}: {size.files} files with {size.bytes} bytes, "
            f"{before.missing} new, {before.different} changed, {before.same} already there"
        )
        after = before
        for _ in range(_COPIES):
            if after.same < size.files:
                # Without checksums rclone takes a file of the same size for the same file.
                await calls.copy(source, target, again=bool(after.different) and not checksums)
                after = await calls.compare(source, target, size.files, read_back=read_back)
        if after.same < size.files:
            raise ShipError(f"of {size.files} files {size.files - after.same} have not arrived at {target}: {after}")
        verified = "download" if read_back else "checksum" if checksums else "size"
        if after.by_size and verified == "checksum":
            ctx.say(f"{target} has no checksum of {after.by_size} files; of these only the sizes were compared")
        details = {
            "sent": size.files - before.same,
            "unchanged": before.same,
            "verified": verified,
            "compared_by_size": after.by_size,
        }
        return Receipt(destination=target, files=size.files, bytes=size.bytes, details=details)


def _directory(target: str) -> str:
    """So that rclone does not look first whether there is a file of that name."""
    return target if target.endswith((":", "/")) else target + "/"


class _Calls:
    """The calls of rclone for one shipment."""

    def __init__(self, inputs: RcloneInputs, ctx: StepContext, names: Iterable[str]) -> None:
        self._inputs = inputs
        self._work_dir = ctx.work_dir
        self._names = environment.seen(names, env_auth=inputs.env_auth)
        self._masks = (ctx.secrets, environment.held(self._names))

    async def checksums(self) -> Sequence[str]:
        """The kinds of checksum that the remote has; this also tells whether there is such a remote."""
        result = await self._run(["backend", "features", self._inputs.remote], _LOOK_S)
        if not result.ok:
            raise failure(result, f"looking at the remote {self._inputs.remote[:-1]}")
        try:
            kinds: Sequence[str] = json.loads(result.stdout)["Hashes"]
        except (ValueError, KeyError, TypeError) as error:
            raise ShipRefused("rclone does not say what its remote can do: version 1.60 or newer is needed") from error
        return kinds

    async def compare(self, source: Path, target: str, files: int, *, read_back: bool) -> Comparison:
        """What of it is there; nothing at all where the directory is missing."""
        report = self._work_dir / "comparison.txt"
        report.unlink(missing_ok=True)
        how = ["--download"] if read_back else []
        result = await self._run(["check", "--one-way", *how, "--combined", report, "--", source, _directory(target)])
        found = Comparison.read(report, result)
        if result.exit_code == NOT_FOUND and not result.timed_out and not found.same:
            return Comparison(missing=files)
        if found.unread or not found.complete:
            raise failure(result, f"comparing with {target}")
        if found.files != files:
            raise ShipRefused(
                f"rclone sees only {found.files} of the {files} files that are to be sent to {target}: "
                "look for a filter in its configuration"
            )
        return found

    async def copy(self, source: Path, target: str, *, again: bool) -> None:
        """Send what is not there; with `again`, what seems to be there too."""
        how = "--ignore-times" if again else "--checksum"
        result = await self._run(["copy", how, "--", source, _directory(target)])
        if not result.ok and result.exit_code != NOTHING_TO_DO:
            raise failure(result, f"sending to {target}")

    async def _run(self, words: Sequence[str | Path], timeout_s: float | None = None) -> ExecResult:
        argv = ["rclone", words[0], *self._inputs.flags, *words[1:]]
        result = await run_tool(
            argv,
            host_env=self._names,
            env=environment.OWN,
            timeout_s=timeout_s or self._inputs.timeout_s,
        )
        said = result.stderr
        for secrets in self._masks:
            said = secrets.data(said)
        return replace(result, stderr=without_logins(said))
