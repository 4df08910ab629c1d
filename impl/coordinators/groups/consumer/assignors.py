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


def _takers(group: ConsumerGroup, topics: Topics) -> dict[str, list[str]]:
    """Who wants a topic, by its name, in order; only topics that there are and somebody wants."""
    found: dict[str, list[str]] = {}
    wants = {one.member_id: group.wants(one) for one in group.members.values()}
    names = sorted({name for wanted in set(wants.values()) for name in wanted if name in topics})
    ordered = sorted(group.members.values(), key=lambda one: (one.instance_id or one.member_id, one.member_id))
    for name in names:
        found[name] = [one.member_id for one in ordered if name in wants[one.member_id]]
    return found


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
    wanted = {(topics[name].topic_id, index) for name in by_name for index in range(topics[name].partitions)}
    wants = {topic_id: set(wanting) for topic_id, wanting in takers.items()}
    given: dict[str, dict[Place, None]] = {member_id: {} for member_id in sorted(group.members)}
    left = set(wanted)
    for member_id, had in given.items():
        for place in sorted(group.target.get(member_id, ())):
            if place in left and member_id in wants[place[0]]:
                had[place] = None
                left.discard(place)
    if len({frozenset(one) for one in takers.values()}) <= 1 and takers:
        _even_out(given, next(iter(takers.values())), left)
    else:
        for place in sorted(left, key=lambda one: (len(takers[one[0]]), one)):
            given[min(takers[place[0]], key=lambda taker: (len(given[taker]), taker))][place] = None
        _balance(given, takers)
    return {member_id: frozenset(places) for member_id, places in given.items()}


def _even_out(given: dict[str, dict[Place, None]], takers: list[str], left: set[Place]) -> None:
    """All want the same: who has more than its part gives the end of it to who has less."""
    total = len(left) + sum(len(given[taker]) for taker in takers)
    size, more = divmod(total, len(takers))
    by_load = sorted(takers, key=lambda taker: (-len(given[taker]), taker))
    parts = {taker: size + (number < more) for number, taker in enumerate(by_load)}
    for taker, part in parts.items():
        while len(given[taker]) > part:
            left.add(given[taker].popitem()[0])
    free = sorted(left, reverse=True)
    for taker, part in parts.items():
        while len(given[taker]) < part:
            given[taker][free.pop()] = None


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
