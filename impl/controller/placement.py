"""Which brokers hold a new partition's replicas (behaviour of Kafka's own striped placement).

The brokers form a ring. Partition p's first replica, its preferred leader, is at position p + start of the ring; the
others follow at a distance that depends on a shift. Each time p has gone once round the ring the shift grows by one, so
that the followers of one leader's partitions are spread over all the others. With racks the ring alternates between
them, and a broker is passed over while a rack without a replica, or a broker without one, is still to be had.

`start` and `shift` are random numbers that the caller draws: placement itself is a function. When a topic grows, both
are the place of partition 0's preferred leader on the ring, which continues the topic's placement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode


class PlacementError(NamedTuple):
    """Why there is no placement: Kafka's error code, and a message."""

    error: ErrorCode
    message: str


def place(
    racks: Mapping[int, str | None], partitions: int, replication_factor: int, start: int, shift: int, first: int = 0
) -> tuple[tuple[int, ...], ...] | PlacementError:
    """The replicas of each partition from number `first` on, the preferred leader first.

    `racks` maps each live broker to its rack; all have one or none has.
    """
    error = placement_error(racks, partitions, replication_factor)
    if error is not None:
        return error
    rounds = [(p, shift + p // len(racks) - max(0, first - 1) // len(racks)) for p in range(first, first + partitions)]
    if any(rack is not None for rack in racks.values()):
        return _place_over_racks(racks, rounds, replication_factor, start)
    return _place_on_ring(sorted(racks), rounds, replication_factor, start)


def growth_start(racks: Mapping[int, str | None], first_replica: int) -> int:
    """The place on the ring where a topic began whose partition 0 has this preferred leader."""
    return next((place for place, broker in enumerate(sorted(racks)) if broker >= first_replica), 0)


def _way_out(brokers: int) -> str:
    match brokers:
        case 0:
            return "0 live brokers: wait until one is unfenced"
        case 1:
            return "1 live broker: ask for 1, or start more brokers"
        case _:
            return f"{brokers} live brokers: ask for 1 to {brokers}"


def placement_error(racks: Mapping[int, str | None], partitions: int, replication_factor: int) -> PlacementError | None:
    """What is wrong with the request; None when nothing is."""
    if partitions <= 0 and replication_factor > 0:
        return PlacementError(ErrorCode.invalid_partitions, f"{partitions} partitions: ask for at least 1")
    if not 0 < replication_factor <= len(racks):
        return PlacementError(
            ErrorCode.invalid_replication_factor,
            f"replication factor {replication_factor} with {_way_out(len(racks))}",
        )
    without = [broker for broker, rack in sorted(racks.items()) if rack is None]
    if without and len(without) < len(racks):
        return PlacementError(
            ErrorCode.invalid_request, f"brokers {without} have no rack and others have: give all of them one, or none"
        )
    return None


def _place_on_ring(
    ring: Sequence[int], rounds: Sequence[tuple[int, int]], replication_factor: int, start: int
) -> tuple[tuple[int, ...], ...]:
    """`rounds` has each partition with the shift of its followers."""
    size = len(ring)
    placed = []
    for partition, distance in rounds:
        first = (partition + start) % size
        others = (_follower_position(first, distance, nth, size) for nth in range(replication_factor - 1))
        placed.append((ring[first], *(ring[position] for position in others)))
    return tuple(placed)


def _follower_position(first: int, shift: int, nth: int, size: int) -> int:
    """Position of follower `nth` (from 0): never the first replica's, and another for each of size - 1 followers."""
    return (first + 1 + (shift + nth) % (size - 1)) % size


def _place_over_racks(
    racks: Mapping[int, str | None], rounds: Sequence[tuple[int, int]], replication_factor: int, start: int
) -> tuple[tuple[int, ...], ...]:
    ring = alternating(racks)
    size, rack_count = len(ring), len(set(racks.values()))
    placed = []
    for partition, distance in rounds:
        first = (partition + start) % size
        chosen = [ring[first]]
        candidates = [ring[_follower_position(first, distance * rack_count, nth, size)] for nth in range(size - 1)]
        while len(chosen) < replication_factor:
            chosen.append(_next_on_racks(racks, chosen, candidates))
        placed.append(tuple(chosen))
    return tuple(placed)


def _next_on_racks(racks: Mapping[int, str | None], chosen: Sequence[int], candidates: Sequence[int]) -> int:
    """The first candidate on a rack that holds the fewest of the replicas chosen so far."""
    free = [broker for broker in candidates if broker not in chosen]
    held = [racks[broker] for broker in chosen]
    return min(free, key=lambda broker: held.count(racks[broker]))


def alternating(racks: Mapping[int, str | None]) -> list[int]:
    """Brokers so that neighbours are on different racks: the first of each rack, then the second of each, and so on."""
    by_rack: dict[str, list[int]] = {}
    for broker, rack in sorted(racks.items()):
        by_rack.setdefault(rack or "", []).append(broker)
    columns = [by_rack[rack] for rack in sorted(by_rack)]
    deepest = max((len(column) for column in columns), default=0)
    return [column[row] for row in range(deepest) for column in columns if row < len(column)]
