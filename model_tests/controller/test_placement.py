"""Where replicas go, without and with racks (behaviour: replica placement)."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.placement import PlacementError, alternating, place

NUMBERS = st.integers(0, 1_000)


def placed(
    racks: dict[int, str | None], partitions: int, factor: int, start: int = 0, shift: int = 0
) -> list[tuple[int, ...]]:
    result = place(racks, partitions, factor, start, shift)
    assert not isinstance(result, PlacementError), result
    return list(result)


def test_kafkas_own_example() -> None:
    """Ten partitions of three replicas on five brokers, from broker 0 and without a shift."""
    assert placed(dict.fromkeys(range(5)), 10, 3) == [
        (0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1),
        (0, 2, 3), (1, 3, 4), (2, 4, 0), (3, 0, 1), (4, 1, 2),
    ]  # fmt: skip


@given(brokers=st.integers(1, 7), rounds=st.integers(1, 4), start=NUMBERS, shift=NUMBERS, data=st.data())
def test_whole_rounds_give_every_broker_the_same(
    brokers: int, rounds: int, start: int, shift: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, brokers))
    assignment = placed(dict.fromkeys(range(brokers)), rounds * brokers, factor, start, shift)
    replicas = Counter(broker for replicas in assignment for broker in replicas)
    assert set(replicas.values()) == {rounds * factor}


@given(brokers=st.integers(1, 7), partitions=st.integers(1, 30), start=NUMBERS, shift=NUMBERS, data=st.data())
def test_replicas_are_on_distinct_brokers_and_leaders_differ_by_at_most_one(
    brokers: int, partitions: int, start: int, shift: int, data: st.DataObject
) -> None:
    ids = [10 * broker + 3 for broker in range(brokers)]
    factor = data.draw(st.integers(1, brokers))
    assignment = placed(dict.fromkeys(ids), partitions, factor, start, shift)
    assert all(len(set(replicas)) == factor and set(replicas) <= set(ids) for replicas in assignment)
    leaders = Counter(replicas[0] for replicas in assignment)
    assert max(leaders.values()) - min(leaders[broker] for broker in ids) <= 1


def test_the_start_and_the_shift_move_the_assignment() -> None:
    racks: dict[int, str | None] = dict.fromkeys(range(5))
    assert placed(racks, 1, 3, start=3) == [(3, 4, 0)]
    assert placed(racks, 1, 3, shift=2) == [(0, 3, 4)]


@given(brokers=st.integers(2, 6), first=st.integers(0, 20), partitions=st.integers(1, 20), start=NUMBERS, shift=NUMBERS)
def test_a_topic_that_grows_moves_its_followers_each_time_it_has_gone_round_the_ring(
    brokers: int, first: int, partitions: int, start: int, shift: int
) -> None:
    """As Kafka counts: from the first new partition on, where that is not partition 0."""
    result = place(dict.fromkeys(range(brokers)), partitions, brokers, start, shift, first)
    assert not isinstance(result, PlacementError)
    distance = shift
    for partition, (leader, *followers) in enumerate(result, start=first):
        distance += partition > 0 and partition % brokers == 0
        others = [(leader + n) % brokers for n in range(1, brokers)]
        turned = distance % (brokers - 1)
        assert (leader, followers) == ((partition + start) % brokers, others[turned:] + others[:turned])


def test_leaders_on_racks_follow_each_other_on_the_ring_from_where_it_starts() -> None:
    assignment = placed({0: "a", 1: "a", 2: "b", 3: "b"}, 4, 2, start=1)
    assert [leader for leader, _ in assignment] == [2, 1, 3, 0]


def test_brokers_are_interleaved_by_rack() -> None:
    assert alternating({0: "a", 1: "a", 2: "a", 3: "b", 4: "b", 5: "b"}) == [0, 3, 1, 4, 2, 5]
    assert alternating({0: "a", 1: "b", 2: "b", 3: "b"}) == [0, 1, 2, 3]


@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    partitions=st.integers(1, 20),
    start=NUMBERS,
    shift=NUMBERS,
    data=st.data(),
)
def test_replicas_of_a_partition_are_on_as_many_racks_as_there_are(
    sizes: list[int], partitions: int, start: int, shift: int, data: st.DataObject
) -> None:
    rack_of = [f"rack-{number}" for number, size in enumerate(sizes) for _ in range(size)]
    racks: dict[int, str | None] = dict(enumerate(rack_of))
    factor = data.draw(st.integers(1, len(racks)))
    assignment = placed(racks, partitions, factor, start, shift)
    assert len(assignment) == partitions
    for replicas in assignment:
        assert len(set(replicas)) == factor
        assert len({racks[broker] for broker in replicas}) == min(factor, len(sizes))


@pytest.mark.parametrize(
    ("racks", "partitions", "factor", "error", "words"),
    [
        ({0: None, 1: None}, 0, 1, ErrorCode.invalid_partitions, "0 partitions"),
        ({0: None, 1: None}, -3, 1, ErrorCode.invalid_partitions, "-3 partitions"),
        ({0: None, 1: None}, 1, 0, ErrorCode.invalid_replication_factor, "factor 0"),
        ({0: None, 1: None}, 0, 0, ErrorCode.invalid_replication_factor, "factor 0"),
        ({0: None, 1: None}, 1, 3, ErrorCode.invalid_replication_factor, "factor 3 with 2 live brokers"),
        (
            {0: None},
            1,
            3,
            ErrorCode.invalid_replication_factor,
            "factor 3 with 1 live broker: ask for 1, or",
        ),
        ({}, 1, 1, ErrorCode.invalid_replication_factor, "0 live brokers: wait until one is unfenced"),
        ({0: "a", 1: None, 2: None}, 1, 1, ErrorCode.invalid_request, "[1, 2] have no rack"),
    ],
)
def test_what_cannot_be_placed_is_refused_with_the_reason(
    racks: dict[int, str | None], partitions: int, factor: int, error: ErrorCode, words: str
) -> None:
    refused = place(racks, partitions, factor, 0, 0)
    assert isinstance(refused, PlacementError)
    assert refused.error is error
    assert words in refused.message
