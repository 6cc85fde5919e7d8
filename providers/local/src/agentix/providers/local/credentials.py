"""Lets one thread of a root process take on another uid for as long as it starts a program.

The kernel keeps credentials for each thread; the C library changes them in all threads at once, so that its functions
cannot be used for this. What the thread starts meanwhile has the uid for good: executing a program makes the
effective uid the saved one, and takes all capabilities from a uid that is not root (credentials(7), capabilities(7)).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
import sys
from collections.abc import Callable, Iterator

_NUMBERS = {"x86_64": (117, 119, 116), "aarch64": (147, 149, 159), "riscv64": (147, 149, 159)}
"""Of setresuid, setresgid and setgroups (syscalls(2)), on 64-bit machines."""
_SAME = -1
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4


def can_wear() -> bool:
    """Whether it is known how to do that on this kind of machine."""
    return platform.machine() in _NUMBERS and sys.maxsize > 1 << 32


@contextlib.contextmanager
def wearing(uid: int) -> Iterator[None]:
    """Be `uid` with the group of the same number and no other, in this thread only.

    Raises:
        OSError: The kernel refuses.
    """
    setresuid, setresgid, setgroups = _NUMBERS[platform.machine()]
    uids, gids, groups, dumpable = os.getresuid(), os.getresgid(), os.getgroups(), _dumpable()
    try:
        _call(setgroups, 0, None)
        _call(setresgid, uid, uid, _SAME)
        # The saved uid stays root, by which the way back is open.
        _call(setresuid, uid, uid, 0)
        yield
    finally:
        _call(setresuid, _SAME, 0, _SAME)
        _call(setresuid, *uids)
        _call(setresgid, *gids)
        _call(setgroups, len(groups), (ctypes.c_uint32 * len(groups))(*groups))
        # The kernel takes the whole process for one that has secrets by now.
        _library().prctl(_PR_SET_DUMPABLE, dumpable, 0, 0, 0)


@functools.cache
def _library() -> ctypes.PyDLL:
    # The calls are too short to let other threads run meanwhile.
    return ctypes.PyDLL(None, use_errno=True)


@functools.cache
def _dumpable() -> int:
    # Asked once: while another thread is in here, the answer would be that thread's doing.
    return 1 if _library().prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) == 1 else 0


def _call(number: int, *arguments: int | ctypes.Array[ctypes.c_uint32] | None) -> None:
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    syscall: Callable[..., int] = _library().syscall
    if syscall(ctypes.c_long(number), *words) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
