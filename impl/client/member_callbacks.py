"""What the member of a group calls at its consumer, whichever protocol it speaks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tidegauge.impl.client.positions import Partition

if TYPE_CHECKING:
    from tidegauge.impl.client.errors import KafkaError

Told: TypeAlias = Callable[[Sequence[Partition]], Awaitable[None]]


class MemberCallbacks(NamedTuple):
    """The consumer's side of its member. `revoked`, `lost` and `assigned` tell the application, within `poll`."""

    news: Callable[[], None]
    """There is something to do in the next `poll`."""
    failed: Callable[[KafkaError], None]
    """The application is to know of this error."""
    owns: Callable[[Sequence[Partition]], None]
    """This is what the consumer reads from now on."""
    before: Callable[[], Awaitable[None]]
    """To be awaited within `poll` before anything is given back."""
    revoked: Told
    lost: Told
    assigned: Told


async def told_once(tell: Callable[[], Awaitable[None]], done: Callable[[], object]) -> None:
    """Tell the application something, and note that it was told.

    A listener that raises was told, and what it was told of goes on with the next `poll`; one that is cancelled has not
    done what it has to, and is told again.
    """
    try:
        await tell()
    except Exception:
        done()
        raise
    done()
