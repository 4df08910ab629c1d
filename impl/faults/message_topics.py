"""The topics and partitions that a message names: taking some of them out of a request, and out of a response.

Kafka's messages name partitions in much the same way: an array of topics, each with its name or its id and an array of
partitions, numbers or structures. `MessageTopics` says where one message has them. `impl.faults.request_topics` and
`impl.faults.response_topics` have one for each API.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar
from uuid import UUID

import attrs

M = TypeVar("M")
T = TypeVar("T")
P = TypeVar("P")

Matches: TypeAlias = Callable[[str, int | None], bool]
"""Whether (topic, partition) is meant; the partition is None where a message names whole topics."""

NameOf: TypeAlias = Callable[[UUID | str], str | None]
"""A topic's name by its id."""


@attrs.frozen
class TopicPartitions(Generic[T, P]):
    """Where a topic of a message has its partitions."""

    get: Callable[[T], Sequence[P]]
    put: Callable[[T, tuple[P, ...]], T]
    """The topic with other partitions."""
    index: Callable[[P], int]


@attrs.frozen
class MessageTopics(Generic[M, T, P]):
    """Where a message has its topics."""

    get: Callable[[M], Sequence[T]]
    put: Callable[[M, tuple[T, ...]], M]
    """The message with other topics."""
    name: Callable[[T], str | None]
    """A topic's name; None or "" where the message has its id."""
    topic_id: Callable[[T], UUID | str | None] = lambda _: None
    partitions: TopicPartitions[T, P] | None = None
    """None where the message names topics as a whole."""

    def split(self, message: M, matches: Matches, name_of: NameOf, *, whole: bool = False) -> tuple[M | None, M | None]:
        """The message without the partitions that match, and with these alone; None for one that would name nothing.

        With `whole`, topics are taken or left as a whole.
        """
        rest: list[T] = []
        taken: list[T] = []
        for topic in self.get(message):
            left, right = self._split_topic(topic, matches, name_of, whole=whole)
            rest += [] if left is None else [left]
            taken += [] if right is None else [right]
        if not taken:
            return message, None
        return (self.put(message, tuple(rest)) if rest else None), self.put(message, tuple(taken))

    def merge(self, message: M, other: M) -> M:
        """One message of two, which name different partitions: topics that are in both come once."""
        merged = list(self.get(message))
        keys = [self._key(topic) for topic in merged]
        inner = self.partitions
        for topic in self.get(other):
            if inner is not None and self._key(topic) in keys:
                at = keys.index(self._key(topic))
                merged[at] = inner.put(merged[at], (*inner.get(merged[at]), *inner.get(topic)))
            else:
                merged.append(topic)
        return self.put(message, tuple(merged))

    def change_topics(self, message: M, matches: Matches, name_of: NameOf, change: Callable[[T], T]) -> M:
        """The message with the topics that match changed; the same object when there is none."""
        rest, taken = self.split(message, matches, name_of, whole=True)
        if taken is None:
            return message
        return self._with(rest, self.put(taken, tuple(map(change, self.get(taken)))))

    def change_partitions(self, message: M, matches: Matches, name_of: NameOf, change: Callable[[P], P]) -> M:
        """The message with the partitions that match changed; the same object when there is none."""
        inner = self.partitions
        assert inner is not None, "the message names partitions"
        rest, taken = self.split(message, matches, name_of)
        if taken is None:
            return message
        changed = [inner.put(topic, tuple(map(change, inner.get(topic)))) for topic in self.get(taken)]
        return self._with(rest, self.put(taken, tuple(changed)))

    def _with(self, rest: M | None, changed: M) -> M:
        return changed if rest is None else self.merge(rest, changed)

    def _split_topic(self, topic: T, matches: Matches, name_of: NameOf, *, whole: bool) -> tuple[T | None, T | None]:
        name = self._name(topic, name_of)
        inner = None if whole else self.partitions
        partitions = () if inner is None else inner.get(topic)
        if inner is None or not partitions:
            return (None, topic) if matches(name, None) else (topic, None)
        rest = tuple(one for one in partitions if not matches(name, inner.index(one)))
        taken = tuple(one for one in partitions if matches(name, inner.index(one)))
        return (inner.put(topic, rest) if rest else None), (inner.put(topic, taken) if taken else None)

    def _name(self, topic: T, name_of: NameOf) -> str:
        if name := self.name(topic):
            return name
        topic_id = self.topic_id(topic)
        return (name_of(topic_id) or "") if topic_id else ""

    def _key(self, topic: T) -> str:
        """A topic's id, or its name where the message has no id."""
        return str(self.topic_id(topic) or "") or self.name(topic) or ""
