"""Who leads what, as far as a client knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from kio.schema.errors import ErrorCode

from tidegauge.impl.client import requests
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.route import Route
from tidegauge.impl.ports.network import Address


class AnyBroker(Protocol):
    """Asks any broker of the cluster."""

    async def ask_any(self, message: Any, *, repeatable: bool) -> Any:
        """The response of the first broker that gives one. Raises UnreachableError or NoResponseError."""
        ...


class Routes:
    """A client's routes; each is learned when first needed and again after it was forgotten."""

    def __init__(self, bootstrap: Sequence[Address]) -> None:
        self._bootstrap = tuple(bootstrap)
        self._avoided: dict[Address, int] = {}
        self._failures = 0
        self._brokers: dict[int, Address] = {}
        self._topics: dict[str, dict[int, Route | ErrorCode]] = {}

    @property
    def addresses(self) -> list[Address]:
        """Every address that is known: those of live brokers first, those that failed of late last."""
        known = list(dict.fromkeys([*self._brokers.values(), *self._bootstrap]))
        return sorted(known, key=lambda address: self._avoided.get(address, 0))

    def avoid(self, address: Address) -> None:
        """Try a broker that did not respond after all others the next time."""
        self._failures += 1
        self._avoided[address] = self._failures

    def forget(self, topic: str) -> None:
        """Learn the topic's leaders anew before the next use."""
        self._topics.pop(topic, None)

    def known(self, topic: str, partition: int) -> Route | None:
        """The route to a partition's leader, if it is known."""
        route = self._topics.get(topic, {}).get(partition)
        return route if isinstance(route, Route) else None

    def address(self, broker: int) -> Address | None:
        """Where a broker is, if that is known."""
        return self._brokers.get(broker)

    async def leader(self, client: AnyBroker, topic: str, partition: int) -> Route:
        """The route to a partition's leader. Raises KafkaError, UnreachableError or NoResponseError."""
        if topic not in self._topics:
            self._learn(await client.ask_any(requests.metadata([topic]), repeatable=True))
        routes = self._topics.get(topic, {})
        route = routes.get(partition, ErrorCode.unknown_topic_or_partition)
        if isinstance(route, ErrorCode):
            raise KafkaError(route, f"{topic}-{partition} has no leader to ask")
        return route

    def _learn(self, message: Any) -> None:
        if message.brokers:
            self._brokers = {broker.node_id: Address(broker.host, broker.port) for broker in message.brokers}
        for topic in message.topics:
            if topic.error_code is ErrorCode.none:
                self._topics[topic.name] = {p.partition_index: self._route(topic, p) for p in topic.partitions}

    def _route(self, topic: Any, partition: Any) -> Route | ErrorCode:
        address = self._brokers.get(partition.leader_id)
        if partition.error_code is not ErrorCode.none or address is None:
            return ErrorCode.leader_not_available
        return Route(
            topic=topic.name,
            topic_id=str(topic.topic_id),
            partition=partition.partition_index,
            leader=partition.leader_id,
            leader_epoch=partition.leader_epoch,
            address=address,
        )
