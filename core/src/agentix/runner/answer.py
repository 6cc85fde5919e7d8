"""The patch of one attempt: the agent's own, or what changed in its working directory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agentix.errors import PatchError, SandboxGone, TrialError
from agentix.patch import BaseTree, Manifest, capture_base
from agentix.runner.boundary import boundary, described
from agentix.runner.phases import Phases

if TYPE_CHECKING:
    from agentix.sandbox import Sandbox


class Answer:
    """Records the tree before the agent and compares it afterwards.

    Args:
        required: Whether the answer is the patch, so that one which cannot be captured is an error; where
            the answer is a state, it is a note.
        phases: The attempt's clock.
        note: Tells the reader of the result.
    """

    def __init__(self, *, required: bool, phases: Phases, note: Callable[[str], None]) -> None:
        self.patch = ""
        self._required = required
        self._phases = phases
        self._note = note
        self._base: BaseTree | None = None
        self._was_empty = False
        self._prepared = False
        self._left: Manifest | None = None
        """The tree as the agent left it the last time."""

    async def prepare(self, sandbox: Sandbox) -> None:
        """Record the base before the agent first runs; later, leave out of the patch what others have changed since.

        Raises:
            PatchError: It cannot be recorded, and the answer is a patch.
            SandboxGone: The sandbox was lost.
        """
        if self._prepared:
            await self._move_base(sandbox)
            return
        self._prepared = True
        if not has_tree(sandbox):
            return
        if sandbox.untouched and not sandbox.config.workdir:
            self._was_empty = True
            return
        try:
            with boundary("sandbox"), self._phases.phase("collect", PatchError):
                self._base = await capture_base(sandbox, sandbox.workdir)
        except SandboxGone:
            raise
        except TrialError as error:
            self._failed(error, required=self._required)

    async def _move_base(self, sandbox: Sandbox) -> None:
        base, left = self._base, self._left
        if base is None or left is None:
            return
        try:
            with boundary("sandbox"), self._phases.phase("collect", PatchError):
                self._base = base.moved(left, await capture_base(sandbox, sandbox.workdir))
        except SandboxGone:
            raise
        except TrialError as error:
            self._failed(error, required=self._required)

    async def capture(self, sandbox: Sandbox, given: str, *, best_effort: bool = False) -> None:
        """Take the patch after the agent ran.

        Args:
            sandbox: Where the agent worked.
            given: The agent's own patch; where it is empty, the trees are compared.
            best_effort: Make any failure a note, since the attempt has failed already.

        Raises:
            PatchError: It cannot be captured, and the answer is a patch.
            SandboxGone: The sandbox was lost.
        """
        if given:
            self.patch = given
            return
        if sandbox.untouched and self._was_empty:
            self._base = BaseTree.empty(sandbox.workdir)
            self._left = self._base.listed
            return
        if sandbox.untouched or (self._base is None and not self._was_empty):
            return
        try:
            with boundary("sandbox"), self._phases.phase("collect", PatchError):
                self._base = base = self._base or BaseTree.empty(sandbox.workdir)
                self._left = await base.now(sandbox)
                captured = await base.diff(sandbox, now=self._left)
        except SandboxGone:
            if not best_effort:
                raise
            return
        except TrialError as error:
            self._failed(error, required=self._required and not best_effort)
            return
        self.patch = captured.text
        for note in captured.notes:
            self._note(f"patch: {note}")
        if captured.excluded:
            self._note(f"left out of the patch: {listed(captured.excluded)}")

    def _failed(self, error: TrialError, *, required: bool) -> None:
        if required:
            raise error
        self._note(f"the patch was not captured: {described(error)}")


def has_tree(sandbox: Sandbox) -> bool:
    """Whether the sandbox has a working directory of its own, whose changes are somebody's work."""
    return sandbox.workdir not in ("", "/")


def listed(names: tuple[str, ...], *, most: int = 10) -> str:
    """Some names and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
