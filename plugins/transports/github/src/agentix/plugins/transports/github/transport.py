"""The transport itself: a commit on top of what the remote has now, pushed without touching any checkout."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from agentix.api import AgentUse, Limits, Receipt, Scope, ShipError, ShipRefused, StepContext
from agentix.plugins.transports.github.address import browsable, is_address
from agentix.plugins.transports.github.checkout import find_checkout, problems
from agentix.plugins.transports.github.failures import RACED, failure, words
from agentix.plugins.transports.github.git import HOST_ENV, Git
from agentix.plugins.transports.github.inputs import GithubInputs
from agentix.plugins.transports.github.overlay import Blob, Overlay, blobs, hash_files, overlay, wanted_blobs
from agentix.plugins.transports.github.remote import Tip, look
from agentix.plugins.transports.github.repository import Repository, clear, open_repository
from agentix.plugins.transports.github.source import LARGE, MOST, SourceFile, files_of, refuse_large, show

_PUSHES = 10
_LONGEST_WAIT_S = 2.0


class Github:
    """Commit to a git repository and push; nothing is ever taken away there.

    A checkout is only asked for its remote, its branch and its configuration: its files, its index and its branches
    stay as they are, and the commit is made on what the remote has now. The same again makes no commit.
    """

    scopes = frozenset({Scope.PER_EXPERIMENT})
    Inputs = GithubInputs
    host_env: tuple[str, ...] = HOST_ENV

    def check(
        self, inputs: GithubInputs, *, agents: Sequence[AgentUse] = (), limits: Limits | None = None
    ) -> Iterable[str]:
        """Say what keeps it from working that is known here: no git, no checkout, no remote, no branch, no identity."""
        return problems(inputs)

    def destination(self, source: Path, inputs: GithubInputs, ctx: StepContext) -> str:
        """Where it would be looked at."""
        if is_address(inputs.repo):
            return browsable(inputs.repo, inputs.branch or "(its default branch)", inputs.dest)
        checkout = find_checkout(inputs, Git(cwd=Path.cwd(), secrets=ctx.secrets))
        return browsable(checkout.address, checkout.branch, inputs.dest)

    async def ship(self, source: Path, inputs: GithubInputs, ctx: StepContext) -> Receipt:
        """Send it.

        Raises:
            ShipRefused: A file is too large, something stands in its way, git has no login or no identity, or the
                server does not take it.
            ShipError: The server did not answer, or others pushed all the time.
        """
        files = await anyio.to_thread.run_sync(files_of, source)
        refuse_large(files)
        if not files:
            ctx.say(f"there are no files to send to {inputs.dest} in {inputs.repo}")
            return Receipt(destination=f"{inputs.repo} {inputs.dest}", files=0, bytes=0, details={"sent": 0})
        git = Git(cwd=ctx.work_dir, secrets=ctx.secrets, timeout_s=inputs.timeout_s)
        await _clear(ctx.work_dir)
        try:
            repository = await open_repository(inputs, git, ctx.work_dir)
            await repository.git("var", "GIT_COMMITTER_IDENT", doing="looking for its identity")
            return await _Shipment(files, inputs, ctx, repository).run()
        finally:
            with anyio.CancelScope(shield=True):
                await _clear(ctx.work_dir)


async def _clear(work_dir: Path) -> None:
    """Remove what a shipment, perhaps one that was interrupted, has of git in its directory."""
    await anyio.to_thread.run_sync(clear, work_dir)


class _Shipment:
    """One path on its way into one repository."""

    def __init__(
        self, files: Sequence[SourceFile], inputs: GithubInputs, ctx: StepContext, repository: Repository
    ) -> None:
        self._files = files
        self._inputs = inputs
        self._ctx = ctx
        self._repository = repository
        self._git = repository.git

    async def run(self) -> Receipt:
        wanted = await wanted_blobs(self._git, self._files, self._inputs.dest)
        first: Overlay | None = None
        said = ""
        for attempt in range(_PUSHES):
            if attempt:
                await anyio.sleep(random.uniform(0, _LONGEST_WAIT_S) * (attempt / _PUSHES))  # noqa: S311
            tip = await look(self._repository)
            found = await overlay(self._git, tip.commit, wanted, self._inputs.dest)
            if first is None:
                first = found
                self._show(tip, found)
            if not found.changes and tip.there:
                return self._receipt(tip.branch, tip.commit, first)
            _refuse_taken(first, found)
            commit = await self._commit(tip, found) if found.changes or tip.commit is None else tip.commit
            said = await self._push(tip, commit)
            if not said:
                await self._verify(tip.branch, commit, wanted)
                return self._receipt(tip.branch, commit, first)
        raise ShipError(
            f"others pushed to {self._repository.address} all the time, so that {_PUSHES} pushes failed: {said}"
        )

    def _show(self, tip: Tip, found: Overlay) -> None:
        total = sum(file.size for file in self._files)
        changed = len(found.changes) - found.new
        self._ctx.say(
            f"to {self._where(tip.branch)}: {len(self._files)} files with {total} bytes, {found.new} new, "
            f"{changed} changed, {len(self._files) - len(found.changes)} already there"
        )
        large = [file for file in self._files if file.size > LARGE]
        if large:
            self._ctx.say(f"{len(large)} files are over 50 MiB, of which GitHub warns: {show(large[0].name)} and so on")
        if total > MOST:
            self._ctx.say(
                f"GitHub takes no push over 2 GiB, and this is {total / (1 << 30):.1f} GiB before it is packed"
            )

    async def _commit(self, tip: Tip, found: Overlay) -> str:
        """Make the commit, beside everything that the checkout has."""
        git, changes = self._git, found.changes
        by_path = dict(zip(found.wanted, self._files, strict=True))
        stored = await hash_files(git, [by_path[path] for path in changes], write=True)
        for path, name in zip(changes, stored, strict=True):
            if name != found.wanted[path].id:
                raise ShipError(f"{show(by_path[path].name)} has changed while it was sent")
        doing = "making the commit"
        await git("read-tree", *([tip.commit] if tip.commit else ["--empty"]), doing=doing)
        lines = (b"%b %b\t%b\0" % (found.wanted[path].mode, found.wanted[path].id, path) for path in changes)
        await git("update-index", "-z", "--index-info", doing=doing, stdin=b"".join(lines))
        tree = (await git("write-tree", "--missing-ok", doing=doing)).text.strip()
        parents = ("-p", tip.commit) if tip.commit else ()
        made = await git("commit-tree", tree, *parents, "-F", "-", doing=doing, stdin=self._message().encode())
        commit = made.text.strip()
        # Git passes over names that it keeps for itself without failing.
        lost = await self._lost(commit, found.wanted)
        if lost:
            raise ShipRefused(
                f"git takes no file of the name {show(lost[0])} ({len(lost)} such): send an archive of it"
            )
        return commit

    async def _lost(self, commit: str, wanted: Mapping[bytes, Blob]) -> list[bytes]:
        there = await blobs(self._git, commit, [self._inputs.dest], "-r")
        return [path for path, blob in wanted.items() if there.get(path) != blob]

    def _message(self) -> str:
        if self._inputs.message is not None:
            return self._inputs.message
        name = " ".join(filter(None, (self._ctx.experiment, self._ctx.run_id)))
        return f"Add {name} to {self._inputs.dest}\n"

    async def _push(self, tip: Tip, commit: str) -> str:
        """Push it; what git said where somebody else was faster, else nothing.

        Raises:
            ShipError: It failed otherwise.
        """
        address, branch = self._repository.address, f"refs/heads/{tip.branch}"
        doing = f"pushing to {address}"
        argv = ("push", "--porcelain", "--no-verify", "--", address, f"{commit}:{branch}")
        pushed = await self._git(*argv, doing=doing, timeout_s=self._git.timeout_s, fails=True)
        if pushed.ok:
            return ""
        error = failure(pushed, doing)
        if not isinstance(error, ShipRefused) and not pushed.timed_out and await self._arrived(branch, commit):
            return ""  # the answer was lost, not the push
        if RACED.search(pushed.text + pushed.error_text) and "hook declined" not in pushed.text:
            return words(pushed)
        raise error

    async def _arrived(self, branch: str, commit: str) -> bool:
        words = ("ls-remote", "--", self._repository.address, branch)
        found = await self._git(*words, doing="looking whether it arrived", fails=True)
        return found.ok and f"{commit}\t{branch}" in found.text.splitlines()

    async def _verify(self, branch: str, commit: str, wanted: Mapping[bytes, Blob]) -> None:
        """See that the remote has it.

        Raises:
            ShipError: It has not.
        """
        if await self._arrived(f"refs/heads/{branch}", commit):
            return
        # Somebody may have pushed on top of it.
        tip = (await look(self._repository)).commit
        lost = list(wanted) if tip is None else await self._lost(tip, wanted)
        if lost:
            raise ShipError(
                f"{len(lost)} files are not as they were sent at {self._where(branch)}: {show(lost[0])} and so on"
            )

    def _where(self, branch: str) -> str:
        return browsable(self._repository.address, branch, self._inputs.dest)

    def _receipt(self, branch: str, commit: str | None, first: Overlay) -> Receipt:
        changes = len(first.changes)
        details = {"branch": branch, "commit": commit, "sent": changes, "unchanged": len(self._files) - changes}
        total = sum(file.size for file in self._files)
        return Receipt(destination=self._where(branch), files=len(self._files), bytes=total, details=details)


def _refuse_taken(first: Overlay, now: Overlay) -> None:
    taken = [path for path in now.changes if now.there.get(path) != first.there.get(path)]
    if taken:
        raise ShipRefused(
            f"somebody else has pushed other contents of {len(taken)} of the files at the same time, "
            f"such as {show(taken[0])}: choose another dest, or ship again to replace them"
        )
