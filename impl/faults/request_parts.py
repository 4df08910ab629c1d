"""The topics and partitions that a message names: taking some of them out of a request, and out of an answer.

Kafka's messages name partitions in one of a few shapes: an array of topics, each with its name or id and an array of
partitions, numbers or structures. That is all that is known here, so that it works for every API that has such a shape.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias
from uuid import UUID

import attrs

Matches: TypeAlias = Callable[[str, int | None], bool]
"""Whether (topic, partition) is meant; the partition is None where a message names whole topics."""

NameOf: TypeAlias = Callable[[UUID | str], str | None]
"""A topic's name by its id."""

TOPICS: Final = ("topic_data", "topics", "responses", "results")
PARTITIONS: Final = ("partition_data", "partitions", "partition_indexes", "partition_responses")
NAMES: Final = ("name", "topic", "topic_name")
INDEXES: Final = ("index", "partition_index", "partition", "partition_id")


def split(message: Any, matches: Matches, name_of: NameOf, *, whole: bool = False) -> tuple[Any, Any]:
    """The message without the partitions that match, and with these alone; None for one that would name nothing.

    With `whole`, topics are taken or left as a whole.
    """
    field = _first(message, TOPICS)
    if field is None:
        return message, None
    rest, taken = [], []
    for topic in getattr(message, field) or ():
        left, right = _split_topic(topic, matches, name_of, whole)
        rest += [] if left is None else [left]
        taken += [] if right is None else [right]
    if not taken:
        return message, None
    return (_with(message, field, rest) if rest else None), _with(message, field, taken)


def merge(answer: Any, other: Any) -> Any:
    """One answer of two, which name different partitions: topics that are in both come once."""
    field = _first(answer, TOPICS)
    assert field is not None, "only answers that name topics are merged"
    merged = list(getattr(answer, field))
    keys = [_key(topic) for topic in merged]
    for topic in getattr(other, field):
        inner = _first(topic, PARTITIONS)
        if inner is not None and _key(topic) in keys:
            at = keys.index(_key(topic))
            merged[at] = _with(merged[at], inner, [*getattr(merged[at], inner), *getattr(topic, inner)])
        else:
            merged.append(topic)
    return _with(answer, field, merged)


def replace(
    message: Any, matches: Matches, name_of: NameOf, change: Callable[[Any], Any], *, whole: bool = False
) -> Any:
    """The message with the partitions (or whole topics) that match changed; the same object when there is none."""
    rest, taken = split(message, matches, name_of, whole=whole)
    if taken is None:
        return message
    field = _first(message, TOPICS)
    assert field is not None, "something was taken"
    topics = []
    for topic in getattr(taken, field):
        inner = None if whole else _first(topic, PARTITIONS)
        topics.append(change(topic) if inner is None else _with(topic, inner, map(change, getattr(topic, inner))))
    changed = _with(taken, field, topics)
    return changed if rest is None else merge(rest, changed)


def _split_topic(topic: Any, matches: Matches, name_of: NameOf, whole: bool) -> tuple[Any, Any]:
    name = topic if isinstance(topic, str) else _name(topic, name_of)
    field = None if whole or isinstance(topic, str) else _first(topic, PARTITIONS)
    partitions = None if field is None else getattr(topic, field)
    if field is None or not partitions or not hasattr(partitions, "__iter__"):
        return (None, topic) if matches(name, None) else (topic, None)
    rest = [partition for partition in partitions if not matches(name, _index(partition))]
    taken = [partition for partition in partitions if matches(name, _index(partition))]
    return (_with(topic, field, rest) if rest else None), (_with(topic, field, taken) if taken else None)


def _name(topic: Any, name_of: NameOf) -> str:
    for field in NAMES:
        if name := getattr(topic, field, None):
            return str(name)
    topic_id = getattr(topic, "topic_id", None)
    return (name_of(topic_id) or "") if topic_id else ""


def _key(topic: Any) -> object:
    """A topic's id, or its name where the message has no id."""
    topic_id = str(getattr(topic, "topic_id", None) or "")
    return topic_id or next((getattr(topic, field) for field in NAMES if getattr(topic, field, None)), "")


def _index(partition: Any) -> int:
    if isinstance(partition, int):
        return partition
    return next(int(getattr(partition, field)) for field in INDEXES if hasattr(partition, field))


def _first(message: Any, fields: Sequence[str]) -> str | None:
    return next((field for field in fields if hasattr(message, field)), None)


def _with(message: Any, field: str, items: Any) -> Any:
    kind = list if isinstance(getattr(message, field), list) else tuple
    return evolved(message, **{field: kind(items)})


def evolved(message: Any, **changes: Any) -> Any:
    """A copy with some fields changed, of kio's dataclasses and of our own."""
    if dataclasses.is_dataclass(message):
        return dataclasses.replace(message, **changes)  # type: ignore[type-var]
    return attrs.evolve(message, **changes)
