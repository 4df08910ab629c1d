"""A leader's fetch session whose partition is at rest: when it comes to rest, what rouses it, what is known by then."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
import trio

from tidegauge.impl.partition.messages import FollowerFetch
from tidegauge.impl.ports.clock import SimulatedClock
from tidegauge.impl.server.broker.fetch_sessions import EVICTION_MS, FetchSessions, SessionFetch
from tidegauge.impl.server.broker.partition import TopicPartition
from tidegauge.impl.server.purgatory import Purgatory
from tidegauge.impl.server.requests.reads import PartitionRead, ReadOutcome
from tidegauge.impl.wire.fetch_messages import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tidegauge.model_tests.partition.replicas import BROKER_EPOCHS, EVERYTHING, Partition
from tidegauge.model_tests.simulated import simulated

FOLLOWER = 1
BEGAN_MS = 20_000
ASKED_MS = 27_000


class Resting:
    """The session of follower 1 with a leader of t-0; the follower has all, was told all, and asks at `BEGAN_MS`."""

    def __init__(self, slots: int = 10) -> None:
        self.partition = Partition()
        self.leader = self.partition[0]
        self.partition.append(0, 1)
        for follower in (1, 2, 1, 2):
            self.partition.fetch(follower)
        self.purgatory: Purgatory[TopicPartition] = Purgatory(SimulatedClock())
        self.cache = FetchSessions(slots, count(1).__next__, self.purgatory)
        self.fetch = self.partition.request(FOLLOWER)
        self.epoch = -1

    def ask(
        self, now_ms: int, *, names: bool = False, broker_epoch: int | None = None, forget: bool = False
    ) -> SessionFetch:
        """The next request of the session, looked at but for its responses."""
        self.epoch += 1
        fetch = self.fetch
        asked = FetchPartition(0, fetch.fetch_offset, 1_000, fetch.leader_epoch, fetch.last_fetched_epoch, 0)
        request = FetchRequest(
            [FetchTopic("t", "", [asked])] if names or not self.epoch else [],
            0,
            1,
            session_id=1 if self.epoch else 0,
            session_epoch=self.epoch,
            replica_id=FOLLOWER,
            replica_epoch=broker_epoch or BROKER_EPOCHS[FOLLOWER],
            forgotten=[ForgottenTopic("t", "", [0])] if forget else [],
        )
        begun = self.cache.begin(request, uses_topic_ids=False, now_ms=now_ms)
        assert isinstance(begun, SessionFetch)
        return begun

    def read(self, begun: SessionFetch) -> list[ReadOutcome]:
        return [
            ReadOutcome(read, self.leader.receive_fetch(followers(read), EVERYTHING, BEGAN_MS)) for read in begun.reads
        ]

    def respond(self, begun: SessionFetch, outcomes: list[ReadOutcome]) -> None:
        begun.to_send(outcomes)
        begun.rest(outcomes, lambda *_: self.leader)

    def come_to_rest(self) -> None:
        begun = self.ask(BEGAN_MS)
        self.respond(begun, self.read(begun))
        assert begun.has_resting
        assert not self.ask(ASKED_MS).reads

    @property
    def caught_up_ms(self) -> int:
        return self.leader.remote_replicas[FOLLOWER].last_caught_up_ms


def followers(read: PartitionRead) -> FollowerFetch:
    assert read.follower is not None
    return read.follower


@simulated
async def test_a_partition_rests_once_all_was_told() -> None:
    resting = Resting()
    resting.come_to_rest()
    assert resting.caught_up_ms == BEGAN_MS


@simulated
@pytest.mark.parametrize("what", ["high watermark", "log start"])
async def test_a_partition_does_not_rest_when_it_has_changed_since_it_was_read(what: str) -> None:
    resting = Resting()
    begun = resting.ask(BEGAN_MS)
    outcomes = resting.read(begun)
    begun.to_send(outcomes)
    if what == "high watermark":
        resting.leader.high_watermark += 1
    else:
        resting.leader.log.delete_records_before(1)
        follower = begun.reads[0]
        follower.follower = followers(follower)._replace(log_start_offset=1)
    begun.rest(outcomes, lambda *_: resting.leader)
    assert not begun.has_resting, "the follower is to be told"
    resting.respond(begun := resting.ask(ASKED_MS), resting.read(begun))
    assert begun.has_resting


@simulated
async def test_a_partition_does_not_rest_while_its_leader_would_do_something_about_the_same_fetch() -> None:
    resting = Resting()
    begun = resting.ask(BEGAN_MS)
    outcomes = resting.read(begun)
    resting.leader.isr = frozenset({0, 2})
    resting.respond(begun, outcomes)
    assert not begun.has_resting, "the next fetch proposes the follower"
    outcomes = resting.read(begun := resting.ask(ASKED_MS))
    assert len(outcomes) == 1
    assert resting.leader.pending_isr == frozenset({0, 1, 2})


def roused_by_change(resting: Resting) -> None:
    resting.purgatory.note(("t", 0))


def roused_by_another_request(resting: Resting) -> None:
    resting.ask(ASKED_MS, names=True)


def roused_by_a_new_process(resting: Resting) -> None:
    begun = resting.ask(ASKED_MS, broker_epoch=500)
    assert [followers(read).broker_epoch for read in begun.reads] == [500]


def forgotten(resting: Resting) -> None:
    resting.ask(ASKED_MS, forget=True)


def replaced(resting: Resting) -> None:
    """Another session takes the only slot."""
    request = FetchRequest([FetchTopic("t", "", [FetchPartition(0, 0, 1_000)])], 0, 1, session_epoch=0, replica_id=2)
    begun = resting.cache.begin(request, uses_topic_ids=False, now_ms=ASKED_MS + EVICTION_MS + 1)
    assert isinstance(begun, SessionFetch)
    assert begun.session_id == 2


@simulated
@pytest.mark.parametrize(
    "rouse", [roused_by_change, roused_by_another_request, roused_by_a_new_process, forgotten, replaced]
)
async def test_when_a_rest_ends_the_leader_learns_until_when_the_follower_was_caught_up(
    rouse: Callable[[Resting], None],
) -> None:
    resting = Resting(slots=1)
    resting.come_to_rest()
    rouse(resting)
    assert resting.caught_up_ms == ASKED_MS
    assert not any(session.has_resting for session in resting.cache.sessions if session.id == 1)


@simulated
async def test_a_session_that_has_ended_is_told_of_nothing() -> None:
    resting = Resting(slots=1)
    resting.come_to_rest()
    replaced(resting)
    assert len(resting.purgatory) == 0
    await trio.lowlevel.checkpoint()
