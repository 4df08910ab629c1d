"""Regular expressions of topics (KIP-848): which names they match, remembered from one metadata image to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import attrs

from tidegauge.impl.coordinators.groups.consumer.metadata_hash import racks_bytes, topic_hash
from tidegauge.impl.coordinators.groups.consumer.state import Topic
from tidegauge.impl.coordinators.name_patterns import NamePattern, PatternError

if TYPE_CHECKING:
    from tidegauge.impl.metadata.image import BrokerRegistration, ClusterImage, TopicImage
    from tidegauge.impl.server.pace import Pace

MOST: Final = 1_000
"""Expressions that are remembered; the oldest is forgotten first."""


class ImageTopics(Mapping[str, Topic]):
    """The topics of the metadata image, as the core asks for them."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    def __getitem__(self, name: str) -> Topic:
        topic = self._image.topics[name]
        return Topic(topic.topic_id, len(topic.partitions))

    def __iter__(self) -> Iterator[str]:
        return iter(self._image.topics)

    def __len__(self) -> int:
        return len(self._image.topics)


class _Expression:
    """One of them, and the names that it was held against."""

    def __init__(self, source: str) -> None:
        """Raises PatternError."""
        self._pattern = NamePattern(source)
        self._known: set[str] = set()
        self._found: set[str] = set()
        self._matching: frozenset[str] | None = frozenset()
        """What was found; None after it has changed."""

    async def learn(self, names: Mapping[str, object], pace: Pace) -> None:
        """Be held against these names in slices; what others learn meanwhile is not learnt again."""
        while new := names.keys() - self._known:
            for name in new:
                if name not in self._known:
                    self._note(name, matches=await pace.finish(self._pattern.matching(name)))

    def matching(self, names: Mapping[str, object]) -> frozenset[str]:
        """What it matches of these names; only those that it does not know take time."""
        if self._known != names.keys():
            for name in self._known - names.keys():
                self._known.discard(name)
                self._found.discard(name)
                self._matching = None
            for name in names.keys() - self._known:
                self._note(name, matches=self._pattern.matches(name))
        if self._matching is None:
            self._matching = frozenset(self._found)
        return self._matching

    def _note(self, name: str, *, matches: bool) -> None:
        self._known.add(name)
        if matches:
            self._found.add(name)
            self._matching = None


class TopicExpressions:
    """The expressions of the groups that a broker coordinates."""

    def __init__(self) -> None:
        self._expressions: dict[str, _Expression] = {}

    async def learn(self, expressions: Iterable[str], names: Mapping[str, object], pace: Pace) -> None:
        """Hold these expressions against the names in slices, so that `matching` has little left to do."""
        for expression in expressions:
            with suppress(PatternError):  # its member is told
                await self._of(expression).learn(names, pace)

    def check(self, expression: str) -> None:
        """Raises PatternError for what is no expression."""
        self._of(expression)

    def matching(self, expression: str, names: Mapping[str, object]) -> frozenset[str]:
        """The names that an expression matches as a whole. Raises PatternError."""
        return self._of(expression).matching(names)

    def _of(self, expression: str) -> _Expression:
        if expression not in self._expressions:
            made = _Expression(expression)
            if len(self._expressions) == MOST:
                del self._expressions[next(iter(self._expressions))]
            self._expressions[expression] = made
        return self._expressions[expression]


class TopicHashes:
    """The hashes of topics that groups read, remembered for as long as the metadata image stays the same."""

    def __init__(self) -> None:
        self._offset = -1
        self._hashes: dict[str, int] = {}

    def of(self, name: str, image: ClusterImage) -> int:
        """The hash of a topic that there is."""
        if self._offset != image.offset:
            self._offset = image.offset
            self._hashes.clear()
        if name not in self._hashes:
            self._hashes[name] = _hash(image.topics[name], image.brokers)
        return self._hashes[name]


def _hash(topic: TopicImage, brokers: Mapping[int, BrokerRegistration]) -> int:
    racks = {one.broker_id: one.rack for one in brokers.values() if one.rack is not None}
    said: dict[tuple[int, ...], bytes] = {}
    """By replicas: many partitions have the same."""
    parts = []
    for number in range(len(topic.partitions)):
        replicas = topic.partitions[number].replicas
        if replicas not in said:
            said[replicas] = racks_bytes(racks[one] for one in replicas if one in racks)
        parts.append(said[replicas])
    return topic_hash(topic.name, topic.topic_id, parts)


@attrs.frozen(eq=False, repr=False)
class TopicsOfImage:
    """The topics of a metadata image as one member may know them (`KnownTopics`)."""

    image: ClusterImage
    expressions: TopicExpressions
    hashes: TopicHashes
    may_describe: Callable[[str], bool]
    time_ms: int

    @property
    def topics(self) -> Mapping[str, Topic]:
        return ImageTopics(self.image)

    @property
    def version(self) -> int:
        return self.image.offset

    @property
    def newest(self) -> int:
        return self.image.newest_topic

    def topic_hash(self, name: str) -> int:
        """Of a topic that there is."""
        return self.hashes.of(name, self.image)

    def check(self, expression: str) -> None:
        """Raises PatternError for what is no expression."""
        self.expressions.check(expression)

    def matching(self, expression: str) -> frozenset[str]:
        """Without what the member may not describe. What is no expression matches nothing."""
        try:
            found = self.expressions.matching(expression, self.image.topics)
        except PatternError:
            return frozenset()
        return frozenset(filter(self.may_describe, found))
