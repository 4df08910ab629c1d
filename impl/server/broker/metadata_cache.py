"""What a broker knows of the cluster: the image of a prefix of the metadata log, and how much of it is in force."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import trio

from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import (
    BrokerConfigRecord,
    ControllerEpochRecord,
    MetadataRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tidegauge.impl.ports.network import Address


class MetadataCache:
    """One broker's metadata image, and the topics that have changed in it since the broker last applied it."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self._changed: set[str] | None = None
        self.offset_in_force = 0
        """The broker acts on the metadata log below this offset; the image may be ahead of it."""
        self._has_advanced = trio.Event()
        self.removed_topics: set[str] = set()
        """Ids of the topics that were deleted by records that are not in force yet."""
        self._on_topic_removed: list[Callable[[str], None]] = []
        self._has_known_of_a_broker = False

    def on_topic_removed(self, tell: Callable[[str], None]) -> None:
        """Have somebody told of each topic that is deleted, by its name, before the image is without it."""
        self._on_topic_removed.append(tell)

    def replay(self, records: Iterable[MetadataRecord]) -> None:
        """Apply the records that follow the image's offset."""
        for record in records:
            if isinstance(record, RemoveTopicRecord):
                self.removed_topics.add(record.topic_id)
                if (removed := self.image.topic_names.get(record.topic_id)) is not None:
                    for tell in self._on_topic_removed:
                        tell(removed)
            if isinstance(record, ControllerEpochRecord | BrokerConfigRecord):
                self._changed = None
            elif self._changed is not None and (name := self._topic_of(record)) is not None:
                self._changed.add(name)
            self.image.apply(record)

    def _topic_of(self, record: MetadataRecord) -> str | None:
        """The topic that a record is about; None for other records."""
        if isinstance(record, TopicRecord):
            return record.name
        if isinstance(record, RemoveTopicRecord):
            return self.image.topic_names.get(record.topic_id)
        return getattr(record, "topic", None)

    def take_changed(self) -> set[str] | None:
        """The topics that changed since the last call; None when all of them may have."""
        changed, self._changed = self._changed, set()
        return changed

    def note_in_force(self) -> None:
        """The broker has applied the image: it hosts the replicas that the image gives it, with its settings."""
        self.offset_in_force = self.image.offset
        self.removed_topics.clear()
        self._has_advanced.set()
        self._has_advanced = trio.Event()

    async def until_in_force(self, offset: int) -> None:
        """Wait until the metadata log below `offset` is in force at this broker."""
        while self.offset_in_force < offset:
            await self._has_advanced.wait()

    def has_known_of_a_broker(self) -> bool:
        """Whether the image has had a broker that was not fenced since this process began."""
        if not self._has_known_of_a_broker:
            self._has_known_of_a_broker = any(not broker.fenced for broker in self.image.brokers.values())
        return self._has_known_of_a_broker

    async def until_a_broker_is_known(self) -> None:
        """Wait until it has.

        A client that comes so early believes a list of no brokers: librdkafka then waits for its operation's time-out.
        Kafka's broker handles no request before it is unfenced.
        """
        while not self.has_known_of_a_broker():
            await self._has_advanced.wait()

    def topic_name(self, topic_id: str) -> str | None:
        """The topic's name; None when this broker knows no such topic."""
        return self.image.topic_names.get(topic_id)

    def endpoints(self, listener: str, *, fenced: bool = False) -> Iterator[tuple[int, Address, str | None]]:
        """(broker id, address, rack) of every unfenced broker with this listener, in order of ids.

        With `fenced` of every registered broker with it.
        """
        for broker_id, broker in sorted(self.image.brokers.items()):
            endpoint = broker.endpoint(listener)
            if endpoint is not None and (fenced or not broker.fenced):
                yield broker_id, Address(*endpoint), broker.rack

    def endpoints_to_ask(self, listener: str, asked: int) -> list[tuple[int, Address, str | None]]:
        """The same of every unfenced broker, or of the one that was `asked` where there is none.

        A client that is told of no broker may ask nobody any more: librdkafka gives up all those that it knows. Kafka's
        broker tells of none.
        """
        found = list(self.endpoints(listener))
        return found or [one for one in self.endpoints(listener, fenced=True) if one[0] == asked]

    def endpoint(self, broker_id: int, listener: str) -> Address | None:
        """Where clients of a listener reach a broker; None when it is fenced, unknown or has no such listener."""
        broker = self.image.brokers.get(broker_id)
        found = None if broker is None or broker.fenced else broker.endpoint(listener)
        return None if found is None else Address(*found)

    def address(self, broker_id: int) -> Address | None:
        """Where a broker listens for other brokers; None when it never registered."""
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else Address(broker.host, broker.port)
