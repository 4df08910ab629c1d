"""Tasks that run beside a block of code and end with it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType

import trio


def require_trio(what: str) -> None:
    """Raise RuntimeError where no trio loop runs, as under asyncio."""
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError(f"{what} runs in trio, and there is no trio loop here: use trio.run, not asyncio")


class BackgroundTasks(AbstractAsyncContextManager[trio.Nursery]):
    """A nursery that is cancelled when its block ends.

    An exception of the block stays what it is; a plain nursery wraps it in a group. If a task fails, the block is
    cancelled and trio's exception group is raised.
    """

    async def __aenter__(self) -> trio.Nursery:
        self._nursery_context = trio.open_nursery()
        self._nursery = await self._nursery_context.__aenter__()
        return self._nursery

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._nursery.cancel_scope.cancel()
        # Raises if a task failed. Otherwise the block's own exception, if any, propagates by itself.
        await self._nursery_context.__aexit__(None, None, None)
