"""Has the kernel take commands, where memory runs out, before the server that runs them all."""

from __future__ import annotations

import posix

_MORE, _MOST = 300, 1000
"""In thousandths of all memory: what a command counts for besides what it has, and the most that the kernel takes."""


class Exposure:
    """Within it, this process counts for more, and so does for ever what it starts meanwhile.

    It is made before the process hides from others, which takes its own file from it too. Where that was so from the
    beginning, as in a user namespace, the kernel chooses as it likes.
    """

    def __init__(self) -> None:
        self._fd = -1
        self._score = 0
        try:
            fd = posix.open("/proc/self/oom_score_adj", posix.O_RDWR | posix.O_CLOEXEC)
        except OSError:
            return
        try:
            self._score = int(posix.read(fd, 16))
            self._fd = fd
        except (OSError, ValueError):
            posix.close(fd)

    def __enter__(self) -> None:
        self._write(min(self._score + _MORE, _MOST))

    def __exit__(self, *_: object) -> None:
        self._write(self._score)

    def _write(self, score: int) -> None:
        if self._fd < 0:
            return
        try:
            posix.write(self._fd, b"%d" % score)
        except OSError:
            # What the kernel does not allow now, it will not later.
            posix.close(self._fd)
            self._fd = -1
