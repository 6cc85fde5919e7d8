"""Collects what a task declares as artifacts, and lays it out again for a separate verifier."""

from __future__ import annotations

import fnmatch
import posixpath
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import anyio

from agentix.api import Flow, Sandbox, SandboxGone, TrialError
from agentix.plugins.datasets.harbor.fetching import fetch, fetch_from_service
from agentix.plugins.datasets.harbor.places import ARTIFACTS, make_anew
from agentix.plugins.datasets.harbor.schema import MAIN_SERVICE, Artifact, CollectHook


@dataclass(frozen=True, kw_only=True)
class Collected:
    """One artifact that lies on the host."""

    source: str
    """Absolute path in the sandbox that it was in."""
    host: Path


async def run_collect_hooks(flow: Flow, sandbox: Sandbox, hooks: Iterable[CollectHook]) -> None:
    """Run the commands that prepare artifacts; one that fails is noted and changes nothing."""
    for hook in hooks:
        place = sandbox if hook.service == MAIN_SERVICE else sandbox.service(hook.service)
        result = await place.exec(hook.command, user=hook.user, timeout_s=hook.timeout_sec, output_limit=4096)
        if not result.ok:
            how = f"took over {hook.timeout_sec:g} s" if result.timed_out else f"exited with {result.exit_code}"
            said = (result.error_text or result.text).strip()[-500:]
            flow.note(f"verifier.collect: {hook.command!r} {how}" + (f": {said}" if said else ""))


async def collect_artifacts(
    flow: Flow, sandbox: Sandbox, artifacts: Iterable[Artifact], into: Path, *, needed: bool
) -> list[Collected]:
    """Copy artifacts out of a sandbox; what does not exist is left out.

    Where two would lie at one place, the first one stays.

    Args:
        flow: Does the copying.
        sandbox: Where the artifacts are.
        artifacts: What is declared; `/logs/artifacts` is collected too.
        into: Directory on the host.
        needed: Whether something is graded by them, so that one that cannot be copied is an error and no note.

    Raises:
        TrialError: A needed artifact exists and could not be copied.
    """
    collected: list[Collected] = []
    for artifact in with_convention(artifacts):
        source = posixpath.normpath(posixpath.join(sandbox.workdir, artifact.source))
        service = artifact.service if artifact.service != MAIN_SERVICE else None
        place = into / (artifact.destination or source.strip("/") or "root")
        clash = next((c for c in collected if place.is_relative_to(c.host) or c.host.is_relative_to(place)), None)
        if clash is not None:
            if clash.source != source:
                flow.note(f"artifacts: {source} was left out: {clash.source} lies at {place.relative_to(into)}")
            continue
        try:
            if service is None:
                found = await fetch(flow, sandbox, source, place)
            else:
                found = await fetch_from_service(flow, sandbox, service, source, place)
        except TrialError as error:
            # What the sandbox's kernel refuses is the agent's doing, such as a pipe in an artifact's place.
            refused = isinstance(error.__cause__, OSError)
            if isinstance(error, SandboxGone) or (needed and not refused):
                raise
            flow.note(f"artifacts: {source} was not collected: {error.message}")
            continue
        if found:
            await anyio.to_thread.run_sync(_remove_excluded, place, artifact.exclude)
            collected.append(Collected(source=source, host=place))
        elif source != ARTIFACTS:
            flow.note(f"artifacts: there is nothing at {source}")
    return collected


async def place_artifacts(sandbox: Sandbox, collected: Iterable[Collected]) -> None:
    """Put artifacts where they were, into another sandbox."""
    for artifact in collected:
        if artifact.host.is_dir():
            await make_anew(sandbox, artifact.source)
        await sandbox.upload(artifact.host, artifact.source)


def with_convention(artifacts: Iterable[Artifact]) -> list[Artifact]:
    """The artifacts, with `/logs/artifacts` before them unless it is among them."""
    declared = list(artifacts)
    if any(artifact.source.rstrip("/") == ARTIFACTS for artifact in declared):
        return declared
    return [Artifact(source=ARTIFACTS), *declared]


def is_excluded(path: str, patterns: Iterable[str]) -> bool:
    """Whether tar's `--exclude` leaves a path out: `*` matches `/`, and a pattern may start after any `/`."""
    parts = path.split("/")
    tails = ["/".join(parts[start:end]) for start in range(len(parts)) for end in range(start + 1, len(parts) + 1)]
    return any(fnmatch.fnmatchcase(tail, pattern.rstrip("/")) for pattern in patterns for tail in tails)


def _remove_excluded(root: Path, patterns: tuple[str, ...]) -> None:
    if not patterns or root.is_symlink() or not root.is_dir():
        return
    below = list(root.iterdir())
    while below:
        path = below.pop()
        is_tree = path.is_dir() and not path.is_symlink()
        if not is_excluded(path.relative_to(root).as_posix(), patterns):
            below.extend(path.iterdir() if is_tree else ())
        elif is_tree:
            shutil.rmtree(path)
        else:
            path.unlink()
