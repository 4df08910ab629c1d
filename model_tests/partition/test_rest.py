"""A fetch at rest: the same fetch again changes nothing at the leader but times, and nothing comes of it."""

from __future__ import annotations

from random import Random

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    FollowerFetch,
    PartitionFetchResponse,
)
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.partition.replicas import BROKER_EPOCHS, EVERYTHING, Partition

LEADER = 0
FOLLOWERS = (1, 2)


def decided(leader: PartitionReplica) -> object:
    """What a leader knows and has decided, without times."""
    remotes = {
        broker: (one.log_end_offset, one.log_start_offset, one.broker_epoch)
        for broker, one in leader.remote_replicas.items()
    }
    return leader.high_watermark, leader.isr, leader.pending_isr, leader.log.log_start_offset, remotes


class Walk:
    """A leader and two followers, whose latest fetches are kept."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.partition = Partition()
        self.leader = self.partition[LEADER]
        self.epochs = dict(BROKER_EPOCHS)
        self.latest: dict[int, FollowerFetch] = {}
        self.proposals: list[AlterPartitionRequest] = []
        self.resting = self.looked = 0

    def step(self) -> None:
        steps = (self.append, self.fetch, self.fetch, self.fetch, self.shrink, self.settle, self.delete, self.restart)
        self.draw.choice(steps)()
        self.partition.now_ms += self.draw.choice((1, 1, 600))
        self.carry_out()

    def carry_out(self) -> None:
        """Keep the leader's proposals, as its shell does."""
        request = self.leader.alter_partition_request(self.epochs[LEADER])
        if self.leader.take_effects() and request is not None and request not in self.proposals:
            self.proposals.append(request)

    def append(self) -> None:
        self.partition.append(LEADER, self.draw.randrange(100), acks=1)

    def fetch(self) -> None:
        follower = self.draw.choice(FOLLOWERS)
        replica = self.partition[follower]
        fetch = replica.fetch_request(self.epochs[follower])
        assert fetch is not None
        response = self.receive(fetch)
        self.latest[follower] = fetch
        if self.draw.random() < 0.8:
            replica.receive_fetch_response(fetch, response, self.partition.now_ms)
            replica.take_effects()

    def receive(self, fetch: FollowerFetch) -> PartitionFetchResponse:
        return self.leader.receive_fetch(fetch, EVERYTHING, self.partition.now_ms)

    def shrink(self) -> None:
        self.leader.shrink_isr(self.partition.now_ms)

    def settle(self) -> None:
        """The controller decides: it commits a proposal, or refuses it for good."""
        if not self.proposals:
            return
        request = self.proposals.pop(0)
        known = self.partition.registration
        if request.partition_epoch != known.partition_epoch or self.draw.random() < 0.4:
            refused = AlterPartitionResponse(ErrorCode.ineligible_replica, 0)
            self.leader.receive_alter_partition_response(request, refused)
            return
        committed = known._replace(isr=request.members, partition_epoch=known.partition_epoch + 1)
        self.partition.registration = committed
        self.leader.receive_alter_partition_response(request, AlterPartitionResponse(ErrorCode.none, 0, committed))

    def delete(self) -> None:
        self.leader.delete_records(self.draw.choice((-1, self.leader.log.log_start_offset)))

    def restart(self) -> None:
        """A new process of a follower; now and then of the leader, or another leader epoch."""
        if self.draw.random() < 0.6:
            self.epochs[self.draw.choice(FOLLOWERS)] += 10
        elif self.draw.random() < 0.5:
            self.partition.elect(LEADER, tuple(sorted(self.partition.registration.isr)))
            self.proposals.clear()

    def check(self) -> None:
        for follower, fetch in self.latest.items():
            self.looked += 1
            if not self.leader.is_at_rest(fetch):
                continue
            self.resting += 1
            before = decided(self.leader)
            response = self.receive(fetch)
            assert decided(self.leader) == before, f"{fetch} changes {follower} at the leader"
            assert not self.leader.take_effects()
            assert not response.has_news, response
            assert response.log_start_offset <= fetch.log_start_offset, "the follower is to move its log start"
            assert response.high_watermark == self.leader.high_watermark


@pytest.mark.parametrize("seed", range(6))
def test_the_same_fetch_again_changes_nothing_at_a_leader_where_it_is_at_rest(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(400):
        walk.step()
        walk.check()
    assert walk.looked / 20 < walk.resting < walk.looked, "both happen often"


def at_rest_after(partition: Partition, follower: int = 1) -> tuple[FollowerFetch, bool]:
    """The follower's next fetch, handled; and whether it is at rest then."""
    fetch = partition.request(follower)
    partition.fetch(follower)
    return fetch, partition[LEADER].is_at_rest(fetch)


def test_a_fetch_of_all_that_a_healthy_leader_has_is_at_rest_until_there_is_more() -> None:
    partition = Partition()
    partition.append(LEADER, 1)
    for follower in FOLLOWERS:
        partition.fetch(follower)
    fetch, rests = at_rest_after(partition)
    assert rests
    beyond = fetch._replace(fetch_offset=2)
    assert not partition[LEADER].is_at_rest(beyond), "the logs diverge"
    partition.append(LEADER, 2)
    assert not partition[LEADER].is_at_rest(fetch)


def test_a_follower_outside_the_isr_does_not_rest_so_that_it_is_proposed_again_after_a_refusal() -> None:
    partition = Partition()
    partition.elect(LEADER, (0, 2))
    partition.append(LEADER, 1)
    partition.fetch(2)
    partition.fetch(1)
    fetch, rests = at_rest_after(partition)
    assert not rests, "it is proposed"
    request = partition[LEADER].alter_partition_request(100)
    assert request is not None
    assert request.members == {0, 1, 2}
    refused = AlterPartitionResponse(ErrorCode.ineligible_replica, 0)
    partition[LEADER].receive_alter_partition_response(request, refused)
    assert partition[LEADER].pending_isr is None
    assert not partition[LEADER].is_at_rest(fetch)
    partition.fetch(1)
    assert partition[LEADER].pending_isr == frozenset({0, 1, 2})


def test_a_follower_below_the_log_start_does_not_rest_so_that_it_is_told_at_once() -> None:
    partition = Partition()
    partition.append(LEADER, 1, 2)
    for follower in (*FOLLOWERS, *FOLLOWERS):
        partition.fetch(follower)
    fetch, rests = at_rest_after(partition)
    assert rests
    assert partition[LEADER].delete_records(1) == 1
    assert not partition[LEADER].is_at_rest(fetch)
    partition.fetch(1)
    assert at_rest_after(partition)[1], "it has moved its own"


def test_a_fetch_of_another_leader_epoch_or_of_a_former_process_does_not_rest() -> None:
    partition = Partition()
    fetch, rests = at_rest_after(partition)
    assert rests
    newer = fetch._replace(broker_epoch=fetch.broker_epoch + 1)
    partition[LEADER].receive_fetch(newer, EVERYTHING, partition.now_ms)
    assert not partition[LEADER].is_at_rest(fetch)
    assert partition[LEADER].is_at_rest(newer)
    partition.elect(LEADER, (0, 1, 2))
    assert not partition[LEADER].is_at_rest(newer)


def test_a_fetch_that_rested_says_until_when_its_follower_was_caught_up_and_only_that_one() -> None:
    partition = Partition()
    partition.append(LEADER, 1)
    fetch, _ = at_rest_after(partition)
    fetch, _ = at_rest_after(partition)
    remote = partition[LEADER].remote_replicas[1]
    began = remote.last_caught_up_ms
    partition[LEADER].was_at_rest(fetch, began + 700)
    assert (remote.last_caught_up_ms, remote.last_fetch_ms) == (began + 700, began + 700)
    partition[LEADER].was_at_rest(fetch, began + 500)
    assert (remote.last_caught_up_ms, remote.last_fetch_ms) == (began + 700, began + 700), "never back"
    for other in (
        fetch._replace(replica_id=9),
        fetch._replace(leader_epoch=fetch.leader_epoch - 1),
        fetch._replace(broker_epoch=fetch.broker_epoch - 1),
        fetch._replace(fetch_offset=0),
    ):
        partition[LEADER].was_at_rest(other, began + 900)
    assert (remote.last_caught_up_ms, remote.last_fetch_ms) == (began + 700, began + 700)
