"""Calling Python functions in a sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

import anyio

from agentix.sandbox import remote as remotes

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable

    from agentix.sandbox.python_worker import PythonWorker

P = ParamSpec("P")
T = TypeVar("T")


class PythonCalls:
    """What a sandbox can do with functions."""

    id: str

    @property
    def _worker(self) -> PythonWorker:
        raise NotImplementedError

    @overload
    async def remote(self, fn: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def remote(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def remote(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a Python function in the sandbox; see `call`, which takes options."""
        return await self.call(fn, args, kwargs)

    async def call(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        result_limit: int | None = None,
    ) -> Any:
        """Call a Python function in the sandbox.

        It runs in a worker that is started at the first call and has the bundle's packages: an async function on
        the worker's loop, any other in a process of its own. Cancelling ends it there.

        Args:
            fn: A function at the top level of a module that the sandbox can import too.
            args: Its arguments, pickled.
            kwargs: Its keyword arguments, pickled.
            timeout_s: After so many seconds it is ended.
            result_limit: How many bytes the result may have; 256 MiB by default.

        Returns:
            What it returned, sent as plain data and made again as the function's return annotation says.

        Raises:
            UsageError: The function cannot be called there, or an argument not be pickled; nothing was run.
            RemoteError: It raised.
            ResultError: Its result is no data, too large, or not what the annotation says.
            WorkerExited: Its process ended.
            TimeoutError: It took longer than `timeout_s`.
        """
        if timeout_s is not None and not timeout_s > 0:
            raise ValueError(f"timeout_s is {timeout_s}; it must be more than 0")
        asked = remotes.request(self._worker, fn, args, kwargs or {}, iterate=False, limit=result_limit)
        if timeout_s is None:
            return await remotes.invoke(self._worker, asked)
        with anyio.move_on_after(timeout_s) as scope:
            return await remotes.invoke(self._worker, asked)
        assert scope.cancelled_caught
        raise TimeoutError(f"{asked.name} took longer than {timeout_s:g} s in sandbox {self.id}, and was ended")

    def remote_iter(
        self, fn: Callable[P, AsyncIterator[T] | Iterable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncGenerator[T, None]:
        """Call a generator, async or not, in the sandbox, and iterate over what it yields.

        It runs ahead by what fits into a buffer of a mebibyte. Where the iteration may be left early, do it inside
        `contextlib.aclosing`, which ends the generator at once. Errors are those of `call`; each item is made
        again as the annotation, such as `AsyncIterator[Item]`, says.
        """
        asked = remotes.request(self._worker, fn, args, kwargs, iterate=True, limit=None)
        return remotes.iterate(self._worker, asked)
