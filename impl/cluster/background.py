"""Tasks that serve a block of code and end with it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType

import trio


def require_trio(what: str) -> None:
    """Raise RuntimeError where no trio loop runs, under asyncio for one."""
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError(f"{what} runs in trio, and there is no trio loop here: use trio.run, not asyncio")


class Background(AbstractAsyncContextManager[trio.Nursery]):
    """A nursery that is cancelled when its block ends.

    Unlike with a nursery of the caller's own, an exception of the block stays what it is and is not wrapped in a group;
    only the failure of a task, for which the block is cancelled, comes as trio's exception group.
    """

    async def __aenter__(self) -> trio.Nursery:
        self._nursery_context = trio.open_nursery()
        self._nursery = await self._nursery_context.__aenter__()
        return self._nursery

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._nursery.cancel_scope.cancel()
        # Raises when a task failed; else whatever the block raised goes on by itself.
        await self._nursery_context.__aexit__(None, None, None)
