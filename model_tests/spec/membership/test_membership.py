"""The machine of membership keeps its invariants, each rule is needed, and the implementation has the same rules.

Every state is visited; at each the rules of the specification and those of the implementation decide alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any, cast

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.metadata.records import PartitionRecord, RemoveTopicRecord, TopicRecord
from tidegauge.impl.partition.messages import EpochEndOffset
from tidegauge.impl.server.broker import departures
from tidegauge.impl.server.broker.metadata_cache import MetadataCache
from tidegauge.impl.server.controller.metadata_fetches import MetadataFetches
from tidegauge.impl.server.requests.reads import PartitionRead
from tidegauge.impl.storage.leader_epoch_cache import EpochEntry, LeaderEpochCache
from tidegauge.model_tests.spec.counts import counted
from tidegauge.spec.kernel.explorer import Stop, explore
from tidegauge.spec.kernel.machine import Action, NotEnabled
from tidegauge.spec.membership.machine import Crash, Decision, Departure, Membership, Start, World

SMALL = Membership(topics=1, losses=2)
Log = tuple[Decision, ...]


def test_the_machine_keeps_its_invariants() -> None:
    found = explore(SMALL, stop=Stop.NEVER, converges=True)
    assert found.holds
    assert counted(found) == (930, 2_985)
    assert found.complete
    assert not found.unreached
    assert not found.never_enabled


@attrs.frozen
class AnyCluster(Membership):
    """The cluster's id is a constant."""

    def may_join(self, state: World) -> bool:
        return True


@attrs.frozen
class AnyLog(Membership):
    """A log that has lost what was read is news."""

    def is_same_log(self, noted: Log, log: Log) -> bool:
        return True


@attrs.frozen
class LengthAlone(Membership):
    """A log that is long enough is the same, though another controller wrote it."""

    def is_same_log(self, noted: Log, log: Log) -> bool:
        return len(log) >= len(noted)


@attrs.frozen
class UnknownIsDeleted(Membership):
    """A replica whose topic the log does not have is deleted."""

    def departure(self, log: Log, topic: int) -> Departure:
        return Departure.DELETED


@pytest.mark.parametrize(
    ("machine", "violated"),
    [
        (AnyCluster(topics=1), "AnotherClusterChangesNothing"),
        (AnyLog(topics=1), "ALogThatHasLostWhatWasReadIsNoNews"),
        (LengthAlone(topics=1), "ALogThatHasLostWhatWasReadIsNoNews"),
        (UnknownIsDeleted(topics=1), "NothingIsDeletedOnHearsay"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_rule_that_is_wrong_is_found(machine: Membership, violated: str) -> None:
    assert violated in {violation.invariant for violation in explore(machine, stop=Stop.EACH).violations}


@attrs.frozen
class StaysRefused(Membership):
    """A broker that met what it does not belong to is never started again."""

    def guard(self, state: World, action: Action) -> str:
        return "it was refused" if isinstance(action, Start) and state.refused else super().guard(state, action)


@attrs.frozen
class JoinsNobody(Membership):
    def may_join(self, state: World) -> bool:
        return False


@pytest.mark.parametrize("kind", [StaysRefused, JoinsNobody])
def test_a_broker_that_never_gets_into_its_cluster_is_found(kind: type[Membership]) -> None:
    found = explore(kind(topics=1), converges=True)
    assert not found.violations
    assert found.convergence is not None
    assert [lasso.goal for lasso in found.convergence.lassos] == list(SMALL.converges)


def test_a_replica_is_kept_if_the_log_has_deleted_only_other_topics() -> None:
    machine = Membership()
    created, deleted = (Decision(1, is_created, 0) for is_created in (True, False))
    assert machine.departure((created, deleted), 1) is Departure.DELETED
    assert machine.departure((created,), 1) is Departure.STRAY
    assert machine.departure((created, deleted), 0) is Departure.STRAY


def test_a_broker_that_runs_is_not_started_and_one_that_is_down_does_not_die() -> None:
    machine = Membership()
    (state,) = machine.initial()
    with pytest.raises(NotEnabled, match="the broker runs"):
        machine.step(state, Start())
    with pytest.raises(NotEnabled, match="the broker is down"):
        machine.step(machine.step(state, Crash()), Crash())


# --- the implementation ----------------------------------------------------------------------------------------------


@cache
def reachable() -> frozenset[World]:
    """Every state of the machine."""
    found, due = set(SMALL.initial()), list(SMALL.initial())
    while due:
        state = due.pop()
        for action in SMALL.actions(state):
            after = SMALL.step(state, action)
            if after not in found:
                found.add(after)
                due.append(after)
    return frozenset(found)


def replayed(log: Log) -> MetadataCache:
    """The metadata of a broker that has read a log, with a replica of each topic on broker 1."""
    cache = MetadataCache()
    for decision in log:
        name, topic_id = f"t{decision.topic}", f"id-{decision.topic}"
        if decision.created:
            cache.replay([TopicRecord(name, topic_id), PartitionRecord(name, 0, replicas=(1,), leader=1, isr=(1,))])
        else:
            cache.replay([RemoveTopicRecord(topic_id)])
    return cache


def test_a_replica_departs_as_in_the_specification() -> None:
    cases = {(state.log, topic) for state in reachable() for topic in state.replicas - SMALL.known(state.log)}
    assert {SMALL.departure(log, topic) for log, topic in cases} == set(Departure)
    for log, topic in cases:
        metadata = replayed(log)
        decided = departures.departure(
            metadata.image, metadata.removed_topics, f"t{topic}", f"id-{topic}", 0, broker_id=1
        ).is_decided
        assert decided == (SMALL.departure(log, topic) is Departure.DELETED), (log, topic)


def test_a_copy_of_a_replica_under_another_name_was_not_given_to_others() -> None:
    """A directory that was copied beside the original, under whatever name, is kept."""
    metadata = replayed(next(state.log for state in reachable() if SMALL.known(state.log)))
    (name,) = list(metadata.image.topics)[:1]
    topic_id = metadata.image.topics[name].topic_id
    departed = partial(departures.departure, metadata.image, metadata.removed_topics)
    assert departed("ghost", topic_id, 0, broker_id=1) is departures.Departure.UNKNOWN
    assert departed(name, topic_id, 7, broker_id=1) is departures.Departure.UNKNOWN
    assert departed(name, topic_id, 0, broker_id=1) is departures.Departure.UNKNOWN, "it is broker 1's"
    assert departed(name, topic_id, 0, broker_id=2) is departures.Departure.REASSIGNED
    metadata.replay([TopicRecord("other", "id-other"), PartitionRecord("other", 0, replicas=(5,), leader=5, isr=(5,))])
    assert departed(name, "id-other", 0, broker_id=2) is departures.Departure.UNKNOWN, "another topic's copy"


@attrs.frozen
class EpochsOnly:
    """A metadata log as far as its offsets and epochs go."""

    decisions: Log
    start_offset: int = 0

    @property
    def end_offset(self) -> int:
        return len(self.decisions)

    def end_offset_for(self, epoch: int) -> EpochEndOffset:
        entries: dict[int, int] = {}
        for offset, decision in enumerate(self.decisions):
            entries.setdefault(decision.epoch, offset)
        cache = LeaderEpochCache(EpochEntry(*entry) for entry in entries.items())
        floor = cache.floor_epoch(epoch)
        if floor is None:
            return EpochEndOffset(-1, 0)
        return EpochEndOffset(*cache.end_offset_for(floor, self.end_offset))

    @property
    def leadership(self) -> Any:
        return attrs.make_class("Leadership", ["leader_id", "epoch"])(3000, 9)

    def read_batches(self, offset: int, max_bytes: int) -> bytes:
        return b""


def fetches(log: Log) -> Iterator[MetadataFetches]:
    yield MetadataFetches(cast(Any, None), cast(Any, None), cast(Any, EpochsOnly(log)), cast(Any, None), "c")


def test_a_controller_refuses_the_reader_of_another_log_as_in_the_specification() -> None:
    cases = {(state.noted, state.log) for state in reachable() if state.noted}
    outcomes = set()
    for noted, log in cases:
        (served,) = fetches(log)
        response = served._read(PartitionRead("", 0, len(noted), 1, last_fetched_epoch=noted[-1].epoch))
        is_same = response.error is ErrorCode.none and response.diverging_epoch is None
        assert is_same == SMALL.is_same_log(noted, log), (noted, log)
        outcomes.add(is_same)
    assert outcomes == {True, False}
