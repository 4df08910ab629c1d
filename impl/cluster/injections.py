"""Injections into the requests of a cluster's clients: errors, delays, holds, closed connections.

An injection applies to requests at any broker, from any client, unless it is told otherwise. It does not apply to what
brokers and controller send each other. Every method returns the injection: `hits` says to how many requests it has
applied; `cancel()` ends it, and so does the end of its `with`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from kio.schema.errors import ErrorCode

from tidegauge.impl.cluster.names import NodeName, broker_name
from tidegauge.impl.cluster.nodes import Nodes
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey

if TYPE_CHECKING:
    from tidegauge.impl.faults.injections import Delay, Disconnection, Failure, Hold, RequestFilter

Api: TypeAlias = ApiKey | int | str
"""An API by its key or Kafka's name for it: `ApiKey.LIST_OFFSETS`, 2, "ListOffsets"."""

Error: TypeAlias = "ErrorCode | int | str"
"""An error by its code or Kafka's name for it: `ErrorCode.not_leader_or_follower`, 6, "NOT_LEADER_OR_FOLLOWER"."""


class RequestInjections:
    """Injections into requests."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes

    def fail_requests(
        self,
        api: Api,
        error: Error,
        count: int | None = 1,
        *,
        topic: str | None = None,
        partition: int | None = None,
        broker: int | None = None,
        client: NodeName | None = None,
        carried_out: bool = False,
        message: str = "",
    ) -> Failure:
        """Respond with an error to the next `count` requests of an API (None: to all, until it is cancelled).

        topic, partition: fail only these partitions; the rest of the request is carried out.
        broker: apply only at this broker.
        client: apply only to this client id, or to what the broker with this id sends to others.
        carried_out: carry the request out and then replace its response, so that the client cannot know.
        message: the response's error message, where the API has one.

        Raises ValueError for a name or number that is none of these.
        """
        from tidegauge.impl.faults.injections import Failure

        where = self._where(api, topic, partition, broker, client)
        code = error_code(error)
        if code is ErrorCode.none:
            raise ValueError(f"error is {error!r}: that is no error; give one, such as 'NOT_LEADER_OR_FOLLOWER'")
        failure = Failure(where=where, count=_count(count), after=carried_out, error=code, message=message)
        return self.nodes.request_faults.inject(failure)

    def fail_produces(self, /, error: Error, count: int | None = 1, **where: Any) -> Failure:
        """Respond with an error to the next `count` Produce requests: `fail_requests("Produce", …)`."""
        return self.fail_requests(ApiKey.PRODUCE, error, count, **where)

    def hold_requests(
        self,
        api: Api | None = None,
        count: int | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        broker: int | None = None,
        client: NodeName | None = None,
        carried_out: bool = False,
    ) -> Hold:
        """Hold requests, or with `carried_out` their responses, until `release()`.

        `waiting` says how many wait; `await hold.wait_for(n)` returns when so many do. The other arguments are those of
        `fail_requests`.
        """
        from tidegauge.impl.faults.injections import Hold

        where = self._where(api, topic, partition, broker, client)
        return self.nodes.request_faults.inject(Hold(where=where, count=_count(count), after=carried_out))

    def hold_acks(self, /, topic: str | None = None, partition: int | None = None, **where: Any) -> Hold:
        """Carry Produce requests out, replication included, and hold their responses until `release()`."""
        return self.hold_requests(ApiKey.PRODUCE, topic=topic, partition=partition, carried_out=True, **where)

    def slow_responses(
        self,
        least_ms: float,
        most_ms: float | None = None,
        api: Api | None = None,
        count: int | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        broker: int | None = None,
        client: NodeName | None = None,
    ) -> Delay:
        """Send responses so many milliseconds after they are ready; with `most_ms` the seed draws how many."""
        from tidegauge.impl.faults.injections import Delay

        most = least_ms if most_ms is None else most_ms
        if not 0 <= least_ms <= most < math.inf:
            raise ValueError(f"least_ms is {least_ms!r} and most_ms {most!r}: give 0 <= least_ms <= most_ms")
        where = self._where(api, topic, partition, broker, client)
        delay = Delay(where=where, count=_count(count), after=True, least_ms=least_ms, most_ms=most)
        return self.nodes.request_faults.inject(delay)

    def drop_connections(
        self,
        api: Api | None = None,
        count: int | None = 1,
        *,
        topic: str | None = None,
        partition: int | None = None,
        broker: int | None = None,
        client: NodeName | None = None,
        carried_out: bool = False,
    ) -> Disconnection:
        """Close the connection on which the next `count` requests come, in place of a response.

        With `carried_out` that is the lost acknowledgement: the records are in the log. `reset_connections` closes
        connections on which no request comes.
        """
        from tidegauge.impl.faults.injections import Disconnection

        where = self._where(api, topic, partition, broker, client)
        return self.nodes.request_faults.inject(Disconnection(where=where, count=_count(count), after=carried_out))

    def _where(
        self, api: Api | None, topic: str | None, partition: int | None, broker: int | None, client: NodeName | None
    ) -> RequestFilter:
        from tidegauge.impl.faults.injections import RequestFilter

        keys = None if api is None else (api_key(api),)
        if topic is not None and not isinstance(topic, str):
            raise ValueError(f"topic is {topic!r}: give a topic's name, or leave it out for any")
        if partition is not None and topic is None:
            raise ValueError(f"partition is {partition!r}: name its topic as well")
        if partition is not None and (type(partition) is not int or partition < 0):
            raise ValueError(f"partition is {partition!r}: give a whole number from 0")
        if topic is not None and keys is not None and not _names_topics(keys[0]):
            raise ValueError(f"topic is {topic!r}: {keys[0].name} names no topics; leave it out")
        if broker is not None:
            self.nodes.task(broker)
        if client is not None and not isinstance(client, str):
            self.nodes.task(client)
            client = broker_name(client)
        return RequestFilter(keys, topic, partition, None if broker is None else broker_name(broker), client)


def api_key(api: Api) -> ApiKey:
    """An API by key or name. Raises ValueError."""
    names = {_plain(key.name): key for key in BROKER_APIS}
    if isinstance(api, str):
        if (found := names.get(_plain(api))) is not None:
            return found
        close = _close(_plain(api), names)
        meant = f"did you mean {names[close[0]].name!r}?" if close else "use Kafka's name, such as 'Produce'"
        raise ValueError(f"api is {api!r}: {meant}")
    if isinstance(api, bool) or api not in BROKER_APIS:
        raise ValueError(f"api is {api!r}: brokers serve no such API; use Kafka's name, such as 'Produce'")
    return ApiKey(api)


def error_code(error: Error) -> ErrorCode:
    """An error by code or name. Raises ValueError."""
    names = {_plain(code.name): code for code in ErrorCode}
    if isinstance(error, str):
        if (found := names.get(_plain(error))) is not None:
            return found
        close = _close(_plain(error), names)
        meant = (
            f"did you mean {names[close[0]].name.upper()!r}?" if close else "use Kafka's name, such as 'NOT_CONTROLLER'"
        )
        raise ValueError(f"error is {error!r}: {meant}")
    try:
        return ErrorCode(error)
    except ValueError:
        raise ValueError(f"error is {error!r}: Kafka has no such code; use a name, such as 'NOT_CONTROLLER'") from None


def _close(name: str, names: Iterable[str]) -> list[str]:
    import difflib

    return difflib.get_close_matches(name, list(names), n=1)


def _names_topics(key: ApiKey) -> bool:
    from tidegauge.impl.faults.request_topics import REQUEST_TOPICS  # the first injection into a topic's requests

    return key in REQUEST_TOPICS


def _plain(name: str) -> str:
    return name.replace("_", "").replace(" ", "").lower()


def _count(count: int | None) -> float:
    if count is None:
        return math.inf
    if type(count) is not int or count < 1:
        raise ValueError(f"count is {count!r}: give at least 1, or None for all")
    return count
