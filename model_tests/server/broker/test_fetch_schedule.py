"""The fetch schedule: which fetcher of a leader takes which partition, and when."""

from __future__ import annotations

from random import Random

import attrs
import pytest

from tidegauge.impl.server.broker.fetch_schedule import BUSY_FOR_S, FEW, MOST_BUSY, FetcherState, FetchSchedule, Lane
from tidegauge.model_tests.amounts import amount

LEADER = 1
LATER = 100.0


@attrs.define(eq=False)
class Replica:
    leader: int = LEADER


@attrs.define(eq=False)
class Hosted:
    """A partition of topic t."""

    index: int
    replica: Replica = attrs.field(factory=Replica)
    is_gone: bool = False
    leader_epoch: int = 0
    outstanding: list[int] = attrs.field(factory=list)
    """The leader epochs of its outstanding fetches."""

    @property
    def key(self) -> tuple[str, int]:
        return "t", self.index

    def awaits_response(self) -> bool:
        return self.leader_epoch in self.outstanding


def following(count: int) -> tuple[FetchSchedule[Hosted], list[Hosted]]:
    """A schedule with partitions 0 to count - 1, whose quiet fetcher runs."""
    schedule, partitions = FetchSchedule[Hosted](LEADER), [Hosted(index) for index in range(count)]
    for partition in partitions:
        assert schedule.follow(partition) is Lane.QUIET
    schedule.started(Lane.QUIET)
    return schedule, partitions


def due(schedule: FetchSchedule[Hosted], lane: Lane, now: float = 0.0) -> list[int]:
    return [partition.index for partition in schedule.due(lane, now)]


def test_a_fetcher_is_absent_then_idle_then_fetching() -> None:
    schedule = FetchSchedule[Hosted](LEADER)
    assert schedule.state(Lane.BUSY) is FetcherState.ABSENT
    schedule.started(Lane.BUSY)
    schedule.fetching(Lane.BUSY)
    assert schedule.state(Lane.BUSY) is FetcherState.FETCHING
    schedule.finished(Lane.BUSY)
    assert schedule.state(Lane.BUSY) is FetcherState.IDLE


def test_the_quiet_fetcher_takes_what_follows_in_the_order_in_which_it_came() -> None:
    schedule, partitions = following(3)
    schedule.follow(partitions[0])
    assert due(schedule, Lane.QUIET) == [1, 2, 0]


def test_a_partition_is_not_due_while_its_fetch_is_outstanding_or_when_it_is_gone_or_follows_another() -> None:
    schedule, partitions = following(4)
    partitions[0].outstanding.append(0)
    partitions[1].is_gone = True
    partitions[2].replica.leader = LEADER + 1
    assert due(schedule, Lane.QUIET) == [3]
    schedule.unfollow(partitions[3].key)
    assert due(schedule, Lane.QUIET) == []
    assert schedule.next_due(Lane.QUIET) == float("inf")


def test_a_partition_that_comes_while_the_quiet_fetcher_waits_is_a_newcomer_until_that_one_takes_it_over() -> None:
    schedule, _ = following(1)
    schedule.fetching(Lane.QUIET)
    assert schedule.follow(Hosted(7)) is Lane.NEW
    assert (due(schedule, Lane.NEW), due(schedule, Lane.QUIET)) == ([7], [0])
    schedule.started(Lane.NEW)
    schedule.fetching(Lane.NEW)
    schedule.finished(Lane.QUIET)
    assert schedule.take_over(Lane.QUIET), "the newcomers' request is outstanding: wait for it"
    schedule.finished(Lane.NEW)
    assert (due(schedule, Lane.NEW), due(schedule, Lane.QUIET)) == ([], [0, 7])
    assert not schedule.take_over(Lane.QUIET)


def test_a_fetcher_waits_for_newcomers_only_if_some_are_its_own() -> None:
    schedule, _ = following(1)
    schedule.fetching(Lane.QUIET)
    schedule.follow(Hosted(7))
    schedule.fetching(Lane.NEW)
    assert not schedule.take_over(Lane.BUSY)
    assert due(schedule, Lane.NEW) == [7]


@pytest.mark.parametrize(("fetched", "busy"), [(FEW, []), (FEW + 1, [3])])
def test_a_partition_with_records_is_busy_where_there_are_many(fetched: int, busy: list[int]) -> None:
    schedule, partitions = following(fetched)
    schedule.had_records(partitions[3], fetched)
    assert due(schedule, Lane.BUSY) == busy
    assert due(schedule, Lane.QUIET) == [index for index in range(fetched) if index not in busy]
    assert schedule.fetched(partitions[3], Lane.QUIET) is (Lane.BUSY if busy else None)


def test_the_least_recent_of_too_many_busy_ones_is_quiet_again() -> None:
    count = MOST_BUSY + 1
    schedule, partitions = following(count)
    for index in (*range(MOST_BUSY), 0, MOST_BUSY):
        schedule.had_records(partitions[index], count)
    assert due(schedule, Lane.QUIET) == [1]
    assert schedule.busy[-2:] == (("t", 0), ("t", MOST_BUSY))
    assert schedule.fetched(partitions[1], Lane.BUSY) is Lane.QUIET


def test_a_busy_partition_goes_by_the_new_fetcher_while_the_busy_one_waits() -> None:
    schedule, partitions = following(FEW + 1)
    schedule.started(Lane.BUSY)
    schedule.fetching(Lane.BUSY)
    schedule.had_records(partitions[0], FEW + 1)
    assert schedule.fetched(partitions[0], Lane.QUIET) is Lane.NEW
    assert (due(schedule, Lane.BUSY), due(schedule, Lane.NEW)) == ([], [0])
    assert schedule.fetched(partitions[0], Lane.NEW) is None, "until the busy fetcher takes it over"
    schedule.finished(Lane.BUSY)
    schedule.take_over(Lane.BUSY)
    assert (due(schedule, Lane.BUSY), due(schedule, Lane.NEW)) == ([0], [])


def test_a_partition_backs_off_until_a_time() -> None:
    schedule, partitions = following(2)
    schedule.back_off(partitions[:1], LATER)
    assert (due(schedule, Lane.QUIET), due(schedule, Lane.QUIET, LATER)) == ([1], [0, 1])
    partitions[1].outstanding.append(0)
    assert schedule.next_due(Lane.QUIET) == LATER


def test_a_new_leader_epoch_ends_the_back_off() -> None:
    schedule, partitions = following(1)
    schedule.back_off(partitions, LATER)
    schedule.follow(partitions[0])
    assert due(schedule, Lane.QUIET) == [0]


def test_a_fetch_from_the_old_leader_that_fails_late_does_not_hold_up_the_new_leader() -> None:
    old, partitions = following(1)
    old.unfollow(partitions[0].key)
    new = FetchSchedule[Hosted](LEADER + 1)
    partitions[0].replica.leader = LEADER + 1
    new.follow(partitions[0])
    old.back_off(partitions, LATER)
    assert due(new, Lane.QUIET) == [0]
    assert old.fetched(partitions[0], Lane.QUIET) is None


@attrs.define(eq=False)
class Fetchers:
    """The three fetchers of one leader as a random walk: each is asleep, about to look, waits, or fetches."""

    rng: Random
    count: int
    schedule: FetchSchedule[Hosted] = attrs.field(factory=lambda: FetchSchedule[Hosted](LEADER))
    partitions: dict[int, Hosted] = attrs.field(factory=dict)
    awake: set[Lane] = attrs.field(factory=set)
    requests: dict[Lane, list[tuple[Hosted, int]]] = attrs.field(factory=dict)
    waiting: set[Lane] = attrs.field(factory=set)

    def wake(self, lane: Lane | None) -> None:
        if lane is not None:
            if self.schedule.state(lane) is FetcherState.ABSENT:
                self.schedule.started(lane)
            self.awake.add(lane)

    def step(self) -> None:
        index, lane = self.rng.randrange(self.count), self.rng.choice(list(Lane))
        match self.rng.randrange(8):
            case 0:
                self.schedule.unfollow(("t", index))
                hosted = self.partitions.get(index)
                if hosted is None or self.rng.random() < 0.5:
                    if hosted is not None:
                        hosted.is_gone = True
                    hosted = self.partitions[index] = Hosted(index)
                hosted.leader_epoch += 1
                self.wake(self.schedule.follow(hosted))
            case 1 | 2 | 3 | 4:
                self.look(lane)
            case _:
                self.respond(lane)

    def look(self, lane: Lane) -> None:
        if lane not in self.awake or lane in self.requests or lane in self.waiting:
            return
        if lane is not Lane.NEW and self.schedule.take_over(lane):
            self.waiting.add(lane)
            return
        wanted = self.schedule.due(lane, 0.0)
        self.awake.discard(lane)
        if wanted:
            self.requests[lane] = [(partition, partition.leader_epoch) for partition in wanted]
            self.schedule.fetching(lane)
            for partition in wanted:
                assert not partition.awaits_response(), "a partition is fetched once at a time"
                partition.outstanding.append(partition.leader_epoch)

    def respond(self, lane: Lane) -> None:
        if lane not in self.requests:
            return
        fetched = self.requests.pop(lane)
        for partition, epoch in fetched:
            partition.outstanding.remove(epoch)
            if self.rng.random() < 0.3:
                self.schedule.had_records(partition, len(fetched))
        for partition, _ in fetched:
            self.wake(self.schedule.fetched(partition, lane))
        self.schedule.finished(lane)
        self.awake.add(lane)
        if lane is Lane.NEW:
            self.awake |= self.waiting
            self.waiting.clear()

    def forgotten(self) -> list[int]:
        """Partitions that no fetcher fetches, will look at, or takes over."""
        cared_for = {p.index for request in self.requests.values() for p, epoch in request if epoch == p.leader_epoch}
        for lane in self.awake | self.waiting | set(self.requests):
            cared_for |= {p.index for p in self.schedule.due(lane, 0.0)}
            cared_for |= {p.index for p in self.schedule.newcomers_of(lane)}
        return sorted(self.partitions.keys() - cared_for)


@pytest.mark.parametrize("seed", range(amount(6, deep=30)))
def test_no_partition_is_forgotten(seed: int) -> None:
    fetchers = Fetchers(Random(seed), count=(3, MOST_BUSY + 1, MOST_BUSY + FEW)[seed % 3])
    for _ in range(2_000):
        fetchers.step()
        assert fetchers.forgotten() == []


@pytest.mark.parametrize("state", [FetcherState.ABSENT, FetcherState.IDLE])
def test_a_newcomer_that_becomes_busy_wakes_the_busy_fetcher_which_takes_it_over(state: FetcherState) -> None:
    schedule, _ = following(0)
    schedule.fetching(Lane.QUIET)
    partition = Hosted(0)
    assert schedule.follow(partition) is Lane.NEW
    schedule.started(Lane.NEW)
    schedule.fetching(Lane.NEW)
    if state is FetcherState.IDLE:
        schedule.started(Lane.BUSY)
    schedule.had_records(partition, FEW + 1)
    assert schedule.fetched(partition, Lane.NEW) is Lane.BUSY
    schedule.started(Lane.BUSY)
    assert schedule.take_over(Lane.BUSY)
    schedule.finished(Lane.NEW)
    assert due(schedule, Lane.BUSY) == [0]
    assert due(schedule, Lane.NEW) == []


def test_a_partition_at_rest_is_not_due_until_it_is_roused() -> None:
    schedule, partitions = following(3)
    schedule.rest(partitions[1])
    assert due(schedule, Lane.QUIET) == [0, 2]
    schedule.rouse(partitions[1])
    assert due(schedule, Lane.QUIET) == [0, 2, 1]
    schedule.rest(partitions[1])
    schedule.unfollow(partitions[1].key)
    schedule.rouse(partitions[1])
    assert due(schedule, Lane.QUIET) == [0, 2], "it follows another leader by now"


def test_a_busy_partition_is_quiet_again_when_it_had_no_records_for_a_while() -> None:
    schedule, partitions = following(FEW + 2)
    for partition in partitions:
        schedule.had_records(partition, len(partitions), now=0.0)
    assert schedule.fetched(partitions[0], Lane.BUSY, now=BUSY_FOR_S) is None
    assert schedule.fetched(partitions[0], Lane.BUSY, now=BUSY_FOR_S + 0.1) is Lane.QUIET
    assert due(schedule, Lane.QUIET) == [0]
    schedule.had_records(partitions[1], len(partitions), now=BUSY_FOR_S)
    assert schedule.fetched(partitions[1], Lane.BUSY, now=BUSY_FOR_S + 0.1) is None
    assert due(schedule, Lane.BUSY)[-1] == 1
