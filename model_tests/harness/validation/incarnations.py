"""Topics of one name told apart: in a trace each is called by its name and its id, once one of them was deleted.

A name may be many topics' in a row. Each of them is a partition of its own as far as the specification goes
(`spec.replication.extensions.deletion`): what is decided of one must be a behaviour without the others. Which topic a
decision is of, it says itself where a node can mistake one for the other: when a topic is created, when a broker
applies metadata (the id is that of the metadata), opens a log or deletes one (that of the log), and refuses a fetch
(that of the fetch). Between these a broker has one log by the name, and the controller has one topic.

So a decision that a node makes of the wrong topic stands in the trace of one that it does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any, TypeVar

import attrs

from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.events import ControllerDecision, Decision
from tidegauge.impl.server.trace.tracer import TraceEvent

T = TypeVar("T")
Key = tuple[str, int]

NOBODY = ""
"""The id of no topic."""


def name_of(topic: str, topic_id: str) -> str:
    """What a topic is called that is not the only one of its name."""
    return f"{topic}/{topic_id}"


def is_namesake(one: str, other: str) -> bool:
    """Whether two topics have the same name, in a trace in which they are told apart."""
    return one != other and one.partition("/")[0] == other.partition("/")[0]


def shared_names(trace: Iterable[TraceEvent]) -> set[str]:
    """The names of topics that were deleted."""
    return {event.decision.topic for event in trace if isinstance(event.decision, events.DeleteTopic)}


def told_apart(trace: Iterable[TraceEvent]) -> Iterator[TraceEvent]:
    """The trace with each of the topics that share a name, or were deleted, under a name of its own."""
    found = list(trace)
    names = shared_names(found)
    return _Renaming(names).renamed(found) if names else iter(found)


def succeeds_another(trace: Iterable[TraceEvent], topic: str) -> bool:
    """Whether there was a topic before it, in a trace in which they are told apart, that had its name."""
    created = (event.decision.topic for event in trace if isinstance(event.decision, events.CreateTopic))
    return any(is_namesake(one, topic) for one in takewhile(lambda one: one != topic, created))


class _Renaming:
    """Which topic each node means by a name, after the events so far."""

    def __init__(self, names: set[str]) -> None:
        self._names = names
        self._written: dict[str, list[tuple[int, str]]] = {}
        """Name -> the ids that the metadata log has had for it, each from an offset on."""
        self._hosted: dict[tuple[int, str, int], str] = {}
        """(broker, name, partition) -> the id of its log, as long as it has one that works."""
        self._kept: dict[tuple[int, str, int], list[str]] = {}
        """The ids of all that its directories may have kept, one that failed too; the newest is the last."""
        self._read: dict[int, int] = {}
        """Broker -> how far it has read the metadata log."""

    def renamed(self, trace: list[TraceEvent]) -> Iterator[TraceEvent]:
        for event in trace:
            self._note(event)
            yield attrs.evolve(event, decision=self._renamed(event))
            self._note_end(event)

    def _note(self, event: TraceEvent) -> None:
        """What an event says of which topic is meant, from it on."""
        match event.decision:
            case events.CreateTopic(topic=topic, topic_id=topic_id, changed=changed) if topic in self._names:
                offset = max(one.metadata_offset for one in changed)
                self._written.setdefault(topic, []).append((offset, topic_id))
            case events.PullMetadata(metadata_offset=offset):
                self._read[event.node] = offset
            case events.ApplyMetadata() | events.Restart() as decision if decision.topic in self._names:
                place = event.node, decision.topic, decision.partition
                before = self._kept.get(place, [])
                topic_id = decision.topic_id or (before[-1] if before else NOBODY)  # a crash may have taken the id
                self._hosted[place] = topic_id
                self._kept[place] = [*(one for one in before if one != topic_id), topic_id]

    def _note_end(self, event: TraceEvent) -> None:
        """What does not hold after an event any more."""
        match event.decision:
            case events.RemoveReplica(topic=topic, partition=partition, topic_id=topic_id, is_left=is_left):
                place = event.node, topic, partition
                self._hosted.pop(place, None)
                if not is_left:
                    self._kept[place] = [one for one in self._kept.get(place, []) if one != topic_id]
            case events.LogDirectoryFailed(lost=lost):
                for one in lost:
                    self._hosted.pop((event.node, one.topic, one.partition), None)
            case events.Crash() | events.Stop():
                self._read.pop(event.node, None)

    def _renamed(self, event: TraceEvent) -> Decision:
        match event.decision:
            case events.RemoveReplica() | events.RefuseFetch() as decision if decision.topic in self._names:
                return with_values(decision, topic=name_of(decision.topic, decision.topic_id))
            case events.OfPartition() as decision if decision.topic in self._names:
                return with_values(decision, topic=self._at_broker(event.node, (decision.topic, decision.partition)))
            case events.ControllerDecision() as decision:
                return self._at_controller(decision)
            case events.Crash() | events.Stop() as decision:
                fields = ("kept", "starts", "high_watermarks")
                renamed = {name: self._keys(event.node, getattr(decision, name)) for name in fields}
                return with_values(decision, **renamed)
            case events.LogDirectoryFailed(lost=lost) as decision:
                return with_values(decision, lost=self._ones(event.node, lost, self._at_broker))
            case events.DamageFound(damaged=damaged) as decision:
                return with_values(decision, damaged=self._ones(event.node, damaged, self._on_disk))
            case decision:
                return decision

    def _at_broker(self, node: int, key: Key) -> str:
        """What a broker means: the topic whose log it has, or else that of the metadata that it has read."""
        topic_id = self._hosted.get((node, *key)) or self._as_of(key[0], self._read.get(node, 0))
        return name_of(key[0], topic_id)

    def _on_disk(self, node: int, key: Key) -> str:
        """What a log on a broker's disks is of."""
        kept = self._kept.get((node, *key))
        return name_of(key[0], kept[-1]) if kept else self._at_broker(node, key)

    def _as_of(self, topic: str, offset: int) -> str:
        return next((found for end, found in reversed(self._written.get(topic, [])) if end <= offset), NOBODY)

    def _keys(self, node: int, values: Mapping[Key, T]) -> Mapping[Key, T]:
        return {
            (self._on_disk(node, key), key[1]) if key[0] in self._names else key: value for key, value in values.items()
        }

    def _ones(self, node: int, ones: Iterable[Any], called: Callable[[int, Key], str]) -> tuple[Any, ...]:
        return tuple(
            attrs.evolve(one, topic=called(node, (one.topic, one.partition))) if one.topic in self._names else one
            for one in ones
        )

    def _now(self, topic: str) -> str:
        """What the controller means by a name."""
        if topic not in self._names:
            return topic
        written = self._written.get(topic)
        return name_of(topic, written[-1][1] if written else NOBODY)

    def _at_controller(self, decision: ControllerDecision) -> Decision:
        values: dict[str, object] = {
            "changed": tuple(attrs.evolve(one, topic=self._now(one.topic)) for one in decision.changed)
        }
        if isinstance(decision, events.PartitionDecision | events.TopicDecision):
            values["topic"] = self._now(decision.topic)
        if isinstance(decision, events.AlterConfigs):
            settings = decision.settings
            values["settings"] = tuple(attrs.evolve(one, topic=self._now(one.topic)) for one in settings)
        return with_values(decision, **values)


D = TypeVar("D", bound=Decision)


def with_values(decision: D, **values: object) -> D:
    """The decision with other values in these fields."""
    return type(decision)(**{**{name: getattr(decision, name) for name in decision.fields}, **values})
