"""Server-side assignors (KIP-848): who is to own what. Pure functions, under Kafka's names.

`uniform` keeps what each was to own, as far as all come to the same number; it moves nothing else. `range` gives the
members of each topic, in the order of their instance ids or member ids, neighbouring partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

from tidegauge.impl.coordinators.groups.consumer.assignor_names import RANGE, UNIFORM
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerGroup, Place, Topics

Target = Mapping[str, frozenset[Place]]
_NOTHING: Final[frozenset[Place]] = frozenset()


def _takers(group: ConsumerGroup, topics: Topics) -> dict[str, list[str]]:
    """Who wants a topic, by its name, in order; only topics that there are and somebody wants."""
    subscriptions = group.subscriptions
    names = sorted(name for name in frozenset[str]().union(*subscriptions) if name in topics)
    ordered = sorted(group.members.values(), key=lambda one: (one.instance_id or one.member_id, one.member_id))
    if len(subscriptions) == 1:
        every = [one.member_id for one in ordered]
        return dict.fromkeys(names, every)
    return {name: [one.member_id for one in ordered if name in group.wants(one)] for name in names}


def assign_range(group: ConsumerGroup, topics: Topics) -> Target:
    """Neighbouring partitions of each topic."""
    given: dict[str, set[Place]] = {member_id: set() for member_id in group.members}
    for name, takers in _takers(group, topics).items():
        topic_id, count = topics[name]
        size, more = divmod(count, len(takers))
        for number, taker in enumerate(takers):
            begin = number * size + min(number, more)
            given[taker].update((topic_id, index) for index in range(begin, begin + size + (number < more)))
    return {member_id: frozenset(places) for member_id, places in given.items()}


def assign_uniform(group: ConsumerGroup, topics: Topics) -> Target:
    """As even as single moves make it, and nothing moves that need not."""
    by_name = _takers(group, topics)
    takers = {topics[name].topic_id: wanting for name, wanting in by_name.items()}
    left = {(topic_id, index) for topic_id, count in (topics[name] for name in by_name) for index in range(count)}
    if len({tuple(one) for one in takers.values()}) <= 1 and takers:
        return _even_out(group, next(iter(takers.values())), left)
    wants = {topic_id: set(wanting) for topic_id, wanting in takers.items()}
    given: dict[str, dict[Place, None]] = {member_id: {} for member_id in sorted(group.members)}
    for member_id, had in given.items():
        for place in sorted(group.target.get(member_id, ())):
            if place in left and member_id in wants[place[0]]:
                had[place] = None
                left.discard(place)
    for place in sorted(left, key=lambda one: (len(takers[one[0]]), one)):
        given[min(takers[place[0]], key=lambda taker: (len(given[taker]), taker))][place] = None
    _balance(given, takers)
    return {member_id: frozenset(places) for member_id, places in given.items()}


def _even_out(group: ConsumerGroup, takers: list[str], left: set[Place]) -> Target:
    """All want the same: who has more than its part gives the end of it to who has less.

    What stays with a member stays the same set: a join costs no more than what it moves, and one look at each member.
    """
    given = dict.fromkeys(sorted(group.members), _NOTHING)
    wanting, total = set(takers), len(left)
    for member_id in given:
        if member_id in wanting and (had := group.target.get(member_id, _NOTHING)):
            given[member_id] = had if had <= left else had & left
            left -= had
    size, more = divmod(total, len(takers))
    by_load = sorted(takers, key=lambda taker: (-len(given[taker]), taker))
    parts = [(taker, size + (number < more)) for number, taker in enumerate(by_load)]
    for taker, part in parts:
        if len(given[taker]) > part:
            ordered = sorted(given[taker])
            left.update(ordered[part:])
            given[taker] = frozenset(ordered[:part])
    free = sorted(left, reverse=True)
    for taker, part in parts:
        if missing := part - len(given[taker]):
            given[taker] |= {free.pop() for _ in range(missing)}
    return given


def _balance(given: dict[str, dict[Place, None]], takers: Mapping[str, list[str]]) -> None:
    """Move single partitions from who has more to who wants them and has at least two fewer, until there is none."""
    moved = True
    while moved:
        moved = False
        for giver in sorted(given, key=lambda one: -len(given[one])):
            by_topic: dict[str, list[Place]] = defaultdict(list)
            for place in given[giver]:
                by_topic[place[0]].append(place)
            for topic_id in sorted(by_topic):
                taker = min(takers[topic_id], key=lambda one: (len(given[one]), one))
                while by_topic[topic_id] and len(given[taker]) < len(given[giver]) - 1:
                    place = by_topic[topic_id].pop()
                    del given[giver][place]
                    given[taker][place] = None
                    moved = True
                    taker = min(takers[topic_id], key=lambda one: (len(given[one]), one))


ASSIGNORS: Final[Mapping[str, Callable[[ConsumerGroup, Topics], Target]]] = {
    UNIFORM: assign_uniform,
    RANGE: assign_range,
}
"""By name; the first one is what a group has whose members name none."""
