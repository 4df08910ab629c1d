"""Injections: faults that are injected into requests, and which requests they apply to.

An injection applies before the handler carries its request out, or after. A failure *before* leaves nothing behind. A
failure *after* is the lost acknowledgement: the records are in the log, and the client does not know.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
import trio

from tidegauge.impl.wire.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from kio.schema.errors import ErrorCode

UNLIMITED: Final = math.inf


class RequestFilter(NamedTuple):
    """Which requests an injection applies to: those that match everything that is given."""

    apis: Collection[int] | None = None
    """None: any API."""
    topic: str | None = None
    partition: int | None = None
    node: str | None = None
    """The server's name (`broker-0`); None: any broker."""
    client: str | None = None
    """The sender's client id; None: any that is not one of the cluster's own nodes."""

    def matches(self, api_key: int, node: str, client: str, own_nodes: Collection[str]) -> bool:
        """Whether a request matches, topics aside."""
        return (
            (self.apis is None or api_key in self.apis)
            and (self.node is None or self.node == node)
            and (client not in own_nodes if self.client is None else self.client == client)
        )

    def matches_partition(self, topic: str, partition: int | None) -> bool:
        """Whether a partition matches; without a number it stands for the whole topic."""
        return self.topic == topic and (partition is None or self.partition in (None, partition))

    def __str__(self) -> str:
        parts = [] if self.apis is None else [ApiKey(key).name for key in sorted(self.apis)]
        parts += (
            [] if self.topic is None else [self.topic if self.partition is None else f"{self.topic}-{self.partition}"]
        )
        parts += [] if self.node is None else [f"at {self.node}"]
        parts += [] if self.client is None else [f"from {self.client}"]
        return " ".join(parts) or "any request"


@attrs.define(eq=False, kw_only=True)
class Injection:
    """A fault of requests. It ends after `count` requests, by `cancel()`, or with the block of its `with`."""

    where: RequestFilter
    count: float = UNLIMITED
    """How many requests it applies to at most."""
    after: bool = False
    """Whether it applies when the request has been carried out."""
    hits: int = 0
    """How many requests it has applied to."""
    _remove: Callable[[Injection], None] | None = attrs.field(default=None, repr=False, init=False)
    """Removes it from the cluster's injections; None while it is not one of them."""

    @property
    def remaining(self) -> float:
        """How many requests it will still apply to: infinity without a limit, 0 when it has ended."""
        return 0 if self._remove is None else self.count - self.hits

    def begin(self, remove: Callable[[Injection], None]) -> None:
        """Apply to requests from now on; the end calls `remove`."""
        self._remove = remove

    def cancel(self) -> None:
        """Apply to no further request."""
        if self._remove is not None:
            remove, self._remove = self._remove, None
            remove(self)

    def count_hit(self) -> None:
        """Count a request that it applies to; the last one ends it."""
        self.hits += 1
        if self.hits >= self.count:
            self.cancel()

    def __enter__(self) -> Injection:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()


@attrs.define(eq=False, kw_only=True)
class Failure(Injection):
    """Requests get an error. With a topic, its partitions do, and the rest of the request is carried out."""

    error: ErrorCode
    message: str = ""


@attrs.define(eq=False, kw_only=True)
class Disconnection(Injection):
    """Requests get no response, and their connection is closed."""


@attrs.define(eq=False, kw_only=True)
class Delay(Injection):
    """Responses are sent later, by a number of milliseconds drawn uniformly."""

    least_ms: float
    most_ms: float


@attrs.define(eq=False, kw_only=True)
class Hold(Injection):
    """Requests, or their responses, wait until they are released."""

    waiting: int = 0
    """How many wait now."""
    _lot: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot, repr=False, init=False)
    _changed: trio.Event = attrs.field(factory=trio.Event, repr=False, init=False)

    def release(self, count: int | None = None) -> None:
        """Release the `count` that have waited longest; without a number release all and end the injection."""
        if count is None:
            self.cancel()
        else:
            self._lot.unpark(count=count)

    def cancel(self) -> None:
        """Release all and apply to no further request."""
        Injection.cancel(self)
        self._lot.unpark_all()

    async def wait_until_released(self) -> None:
        """Wait as one of the requests that are held."""
        self.waiting += 1
        self._changed.set()
        self._changed = trio.Event()
        try:
            await self._lot.park()
        finally:
            self.waiting -= 1

    async def wait_for(self, count: int = 1) -> None:
        """Return when so many requests wait."""
        while self.waiting < count:
            await self._changed.wait()
