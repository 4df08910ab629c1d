"""Near misses: a request that is enabled but for one number, such as a stale or a future epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar, cast

from tidegauge.spec.kernel.evolving import evolve

M = TypeVar("M")


def epochs_around(epoch: int) -> tuple[int, ...]:
    """A stale epoch, the epoch itself, and a future one; none is negative."""
    return tuple(near for near in (epoch - 1, epoch, epoch + 1) if near >= 0)


def with_epochs_around(message: M, *fields: str) -> Iterator[M]:
    """The messages that differ from this one in one of these epochs at the most."""
    for field in fields:
        now = getattr(message, field)
        for epoch in epochs_around(now):
            changed: dict[str, Any] = {field: epoch}
            near: M = message if epoch == now else evolve(cast(Any, message), **changed)
            yield near
