"""Send a plan part by part, until the hub says that everything is there."""

from __future__ import annotations

import random
import shutil
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from agentix.api import ShipError, ShipRefused
from agentix.plugins.transports.hf.answers import Answer, Said
from agentix.plugins.transports.hf.command import Hub
from agentix.plugins.transports.hf.plan import Item, Plan, parts

_FIRST_WAIT_S = 5.0
_FIRST_WAIT_BUSY_S = 15.0
_LONGEST_WAIT_S = 300.0
_TRIES = 6
_CHECKS = 3
_SMALLEST = 50
"""Files; a part of no more is not cut after the hub took too long over it."""
_PARTS = "parts"


@dataclass
class Patience:
    """How long is still waited for a hub that is too busy, or cannot be reached."""

    left_s: float
    say: Callable[[str], None]
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    tries: int = 0

    async def __call__(self, said: Said) -> None:
        """Wait as the hub told, or longer each time, before the same is tried again.

        Raises:
            ShipRefused: Trying again cannot help.
            ShipError: It took too long, or nobody knows whether trying again helps.
        """
        if said.answer in (Answer.REFUSED, Answer.NOT_FOUND):
            raise ShipRefused(said.text)
        busy = said.answer is Answer.BUSY
        if not said.known or (self.tries >= _TRIES and not busy):
            raise ShipError(said.text)
        first = _FIRST_WAIT_BUSY_S if busy else _FIRST_WAIT_S
        # Ships that were turned away together do not come back together.
        wait = min(_LONGEST_WAIT_S, first * 2**self.tries) * random.uniform(1.0, 1.25)  # noqa: S311
        if said.wait_s is not None:
            wait = said.wait_s + random.uniform(1.0, 2.0)  # noqa: S311
        if wait > self.left_s:
            asked = "" if said.wait_s is None else f", and asks to wait {said.wait_s:.0f} s"
            raise ShipError(f"{said.text}{asked}; max_wait_s leaves {self.left_s:.0f} s")
        self.tries += 1
        self.left_s -= wait
        self.say(f"{said.text}; trying again in {wait:.0f} s")
        await self.sleep(wait)

    def progress(self) -> None:
        """Something arrived: the next wait is a first one again."""
        self.tries = 0


@dataclass
class Sending:
    """One plan on its way."""

    hub: Hub
    plan: Plan
    folder: str
    """In the repository; empty for its root."""
    message: str
    patience: Patience
    commits: list[str] = field(default_factory=list)
    """Addresses of those that were made, in their order; not of one whose answer was lost."""
    head: str | None = None
    """Address of the newest commit when the hub last said that it has everything."""

    async def run(self) -> None:
        """Send what the hub does not have, and have it compare every hash with what is here.

        Raises:
            ShipRefused: The hub does not take it.
            ShipError: It did not arrive.
        """
        waiting = deque(parts(self.plan.items))
        count, several, sent = 0, len(waiting) > 1, False
        while waiting:
            part, count = waiting.popleft(), count + 1
            title = f"{self.message} (part {count})" if several else self.message
            with self._shown(part, whole=not several) as path:
                halves, made = await self._send(part, path, title)
            several = several or bool(halves)
            waiting.extendleft(reversed(halves))
            sent = sent or made
        if sent:
            await self._check()

    async def _send(self, part: tuple[Item, ...], path: Path, title: str) -> tuple[list[tuple[Item, ...]], bool]:
        """Send one part.

        Returns:
            Its halves, where the hub took too long over the whole of it; and whether a commit was made.
        """
        late = 0
        # After a failure this looks first: what the hub took, although it never said so, is not sent again.
        while (said := await self.hub.upload(path, self._to(path), title)).failed:
            late += said.status == 504
            await self.patience(said)
            if late > 1 and len(part) > _SMALLEST:
                half = len(part) // 2
                return [part[:half], part[half:]], False
        self._note(said)
        return [], said.answer is Answer.DONE

    async def _check(self) -> None:
        """Have the hub compare again; what it lacks is sent again, a few times at most."""
        checks = 0
        while checks < _CHECKS:
            with self._shown(self.plan.items, whole=True) as path:
                said = await self.hub.upload(path, self._to(path), f"{self.message} (what was missing)")
            if said.failed:
                await self.patience(said)
                continue
            self._note(said)
            if said.answer is Answer.UNCHANGED:
                return
            checks += 1
        raise ShipError(
            f"the hub took everything {_CHECKS} times and still has not all of it; somebody else may be writing to "
            f"{self.hub.address(self.folder)}"
        )

    def _note(self, said: Said) -> None:
        self.patience.progress()
        self.head = said.commit
        if said.answer is Answer.DONE and said.commit:
            self.commits.append(said.commit)

    def _to(self, path: Path) -> str:
        if path.is_dir():
            return self.folder or "."
        return f"{self.folder}/{path.name}" if self.folder else path.name

    @contextmanager
    def _shown(self, items: tuple[Item, ...], *, whole: bool) -> Iterator[Path]:
        """A directory with these files only: the source itself, or one of links to its files."""
        if whole:
            yield self.plan.source
            return
        root = self.hub.work_dir / _PARTS
        shutil.rmtree(root, ignore_errors=True)
        try:
            for item in items:
                link = root / item.path
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(self.plan.source / item.path)
            yield root
        finally:
            shutil.rmtree(root, ignore_errors=True)
