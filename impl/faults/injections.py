"""Injections: what is done to requests on purpose, and to which of them.

Each strikes before its request is carried out or after: a failure *before* leaves nothing behind, one *after* is the
lost acknowledgement, when the records are in the log and the client does not know.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

import attrs
import trio

from tidegauge.impl.wire.apis import ApiKey

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

    from tidegauge.impl.faults.interference import Interference

UNLIMITED: Final = math.inf


@attrs.frozen
class Where:
    """Which requests: all that is given must fit."""

    apis: Collection[int] | None = None
    """None: any API."""
    topic: str | None = None
    partition: int | None = None
    node: str | None = None
    """The server's name (`broker-0`); None: any broker."""
    client: str | None = None
    """The peer's client id; None: any that is not one of the cluster's own nodes."""

    def fits(self, api_key: int, node: str, client: str, own_nodes: Collection[str]) -> bool:
        """Whether a request is meant, topics aside."""
        return (
            (self.apis is None or api_key in self.apis)
            and (self.node is None or self.node == node)
            and (client not in own_nodes if self.client is None else self.client == client)
        )

    def names(self, topic: str, partition: int | None) -> bool:
        """Whether a partition is meant; one without a number stands for the whole topic."""
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
    """One order, until it has struck `count` requests or is cancelled. Use it as `with` to cancel it at the end."""

    where: Where
    count: float = UNLIMITED
    """How many requests it strikes at most."""
    after: bool = False
    """Whether it strikes when the request has been carried out."""
    hits: int = 0
    """How many requests it has struck."""
    owner: Interference | None = attrs.field(default=None, repr=False)

    @property
    def remaining(self) -> float:
        """How many requests it will still strike; infinity for one without a limit, 0 for one that is over."""
        return 0 if self.owner is None else self.count - self.hits

    def cancel(self) -> None:
        """Strike nothing any more."""
        if self.owner is not None:
            self.owner.forget(self)

    def strike(self) -> None:
        """Count a request that is struck."""
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
    """Requests get no answer, and their connection is closed."""


@attrs.define(eq=False, kw_only=True)
class Slowness(Injection):
    """Answers take so many milliseconds longer, drawn uniformly."""

    least_ms: float
    most_ms: float


@attrs.define(eq=False, kw_only=True)
class Hold(Injection):
    """Requests, or their answers, wait until they are released."""

    waiting: int = 0
    """How many wait now."""
    _lot: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot, repr=False, init=False)
    _changed: trio.Event = attrs.field(factory=trio.Event, repr=False, init=False)

    def release(self, count: int | None = None) -> None:
        """Let the `count` that have waited longest go; without a number let all go, and hold nothing any more."""
        if count is None:
            self.cancel()
        else:
            self._lot.unpark(count=count)

    def cancel(self) -> None:
        """Let all go, and hold nothing any more."""
        Injection.cancel(self)
        self._lot.unpark_all()

    async def wait_until_released(self) -> None:
        """The request's part of it."""
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
