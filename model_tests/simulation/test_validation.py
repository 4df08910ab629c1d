"""Trace validation: it follows what the specification allows, and stops at the first event that it doesn't."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import FollowerFetch
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.contents import LoggedBatch, ProducerMemory
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.harness.simulation.options import Fault, Options, sparse
from tidegauge.model_tests.harness.simulation.simulation import traced
from tidegauge.model_tests.harness.validation.followed import Settings
from tidegauge.model_tests.harness.validation.validation import (
    Validated,
    concerns,
    partitions,
    surviving,
    validate,
)
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import History, Record, State

CONTROLLER = 3000


def state(**changes: Any) -> events.ReplicaState:
    """What a replica knows at first, but for the changes."""
    normal = events.ReplicaState(
        leader=0,
        leader_epoch=0,
        partition_epoch=0,
        log_end_offset=0,
        high_watermark=0,
        log_start=0,
        isr=(0, 1),
        pending_isr=None,
        last_stable_offset=0,
    )
    return attrs.evolve(normal, **{"last_stable_offset": changes.get("high_watermark", 0), **changes})


def event(node: int, decision: events.Decision) -> TraceEvent:
    return TraceEvent(0, node, decision)


def response(records: int, high_watermark: int, error: ErrorCode = ErrorCode.none) -> events.FetchOutcome:
    return events.FetchOutcome(error, None, records, high_watermark, 0, (BATCH,) if records else ())


def follower_fetch(offset: int, last_fetched_epoch: int) -> FollowerFetch:
    """Of broker 1."""
    return FollowerFetch(1, 2, 0, offset, last_fetched_epoch, 0)


BATCH = LoggedBatch(0, 2, 0, checksum=77, producer_id=-1, producer_epoch=-1, base_sequence=-1)
NOBODY = ProducerMemory(forgot=False, producers=())
CREATED = events.ChangedPartition("t", 0, PartitionRegistration((0, 1), 0, 0, 0, frozenset({0, 1})), metadata_offset=9)
HAS_TWO = state(log_end_offset=2)
FIRST, SECOND = follower_fetch(0, -1), follower_fetch(2, 0)

GOOD: tuple[TraceEvent, ...] = (
    event(CONTROLLER, events.ControllerFailover((), controller_epoch=0, metadata_offset=1)),
    event(CONTROLLER, events.Register((), broker=0, broker_epoch=1)),
    event(CONTROLLER, events.Register((), broker=1, broker_epoch=2)),
    event(CONTROLLER, events.Unfence((), broker=0, broker_epoch=1)),
    event(CONTROLLER, events.Unfence((), broker=1, broker_epoch=2)),
    event(CONTROLLER, events.CreateTopic((CREATED,), "t", "id")),
    event(0, events.PullMetadata(9)),
    event(1, events.PullMetadata(9)),
    event(0, events.ApplyMetadata("t", 0, state(), controller_epoch=0, replicas=(0, 1), elr=(), topic_id="id")),
    event(1, events.ApplyMetadata("t", 0, state(), controller_epoch=0, replicas=(0, 1), elr=(), topic_id="id")),
    event(0, events.Append("t", 0, HAS_TWO, NOBODY, acks=-1, base_offset=0, records=2, batches=(BATCH,))),
    event(1, events.SendFetch("t", 0, state(), source=0, fetch=FIRST)),
    event(0, events.ReceiveFetch("t", 0, state(log_end_offset=2), FIRST, response(2, 0))),
    event(1, events.ReceiveFetchResponse("t", 0, HAS_TWO, NOBODY, 0, FIRST, response(2, 0), accepted=True)),
    event(1, events.SendFetch("t", 0, state(log_end_offset=2), source=0, fetch=SECOND)),
    event(0, events.HoldFetch("t", 0, state(log_end_offset=2, high_watermark=2), SECOND, response(0, 2))),
)
"""A trace written by hand, as a cluster of two would write it: created, appended, fetched, committed."""


class Dance(events.OfReplica):
    """A decision that the specification does not have."""


def of(trace: tuple[TraceEvent, ...]) -> Validated:
    return validate(trace, "t", 0, Settings(min_insync_replicas=1))


def with_fields(decision: events.Decision, **changes: Any) -> events.Decision:
    """The decision with other values; those of its outcome and of its state are named like its own."""
    own: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        holder = next((one for one in ("state", "outcome") if name in fields_of(getattr(decision, one, None))), None)
        if name in fields_of(decision) or holder is None:
            own[name] = value
        else:
            inner.setdefault(holder, {})[name] = value
    evolved = {name: attrs.evolve(getattr(decision, name), **values) for name, values in inner.items()}
    return type(decision)(**{**vars(decision), **own, **evolved})


def fields_of(value: Any) -> frozenset[str]:
    if isinstance(value, events.Decision):
        return frozenset(value.fields)
    return frozenset() if value is None else frozenset(field.name for field in attrs.fields(type(value)))


def changed(place: int, **fields: Any) -> tuple[TraceEvent, ...]:
    """The good trace with some fields of one event changed."""
    one = attrs.evolve(GOOD[place], decision=with_fields(GOOD[place].decision, **fields))
    return (*GOOD[:place], one, *GOOD[place + 1 :])


def test_a_trace_written_by_hand_is_followed_to_its_end() -> None:
    done = of(GOOD)
    assert done.holds, str(done)
    assert done.actions == {
        "ReceiveMetadata": 2,
        "ApplyMetadata": 2,
        "Append": 2,
        "SendFetch": 2,
        "ReceiveFetch": 1,
        "ReceiveFetchResponse": 1,
        "HoldFetch": 1,
    }
    assert str(done) == f"t-0: all {len(GOOD)} events are a behaviour of the specification"


@pytest.mark.parametrize(
    ("bad", "place", "told"),
    [
        (changed(8, isr=(0,)), 8, r"isr is \[0\] at broker 0, \[0, 1\] in the specification"),
        (changed(10, high_watermark=2), 10, "high_watermark is 2 at broker 0, 0 in the specification"),
        (changed(10, records=1), 10, "log_end_offset is 2 at broker 0, 1 in the specification"),
        (changed(12, fetch=follower_fetch(1, 0)), 12, "no message on its way is what this event received"),
        (changed(12, error=ErrorCode.not_leader_or_follower), 12, "the guard fails: broker 0 responds"),
        (changed(12, error=ErrorCode.unknown_topic_id), 12, "the guard fails: broker 0 responds"),
        (changed(12, error=ErrorCode.corrupt_message), 12, "the specification knows no error CORRUPT_MESSAGE"),
        (changed(12, outcome=response(2, 1)), 12, "the guard fails: broker 0 responds"),
        (changed(13, error=ErrorCode.unknown_server_error), 13, "knows no error UNKNOWN_SERVER_ERROR"),
        (changed(13, outcome=response(2, 1)), 13, "no message on its way is what this event received"),
        (changed(12, batches=(BATCH._replace(leader_epoch=1),)), 12, "is of leader epoch 1, in the specification of 0"),
        (changed(13, batches=(BATCH._replace(checksum=78),)), 13, "record 0 of the batch with checksum 0000004e, in"),
        (
            changed(13, batches=(BATCH._replace(end_offset=3),)),
            13,
            "a record at offset 2, the specification's log",
        ),
        (changed(15, high_watermark=1), 15, "high_watermark is 1 at broker 0, 2 in the specification"),
        ((*GOOD[:11], *GOOD[12:]), 11, "no message on its way"),
        ((*GOOD, GOOD[14]), 16, "the guard fails: broker 1 is still waiting for a response"),
        ((*GOOD[:10], event(1, events.Append("t", 0, state(), NOBODY, 1, 0, 1, ()))), 10, "does not think it leads"),
        ((*GOOD[:10], event(0, Dance("t", 0, state()))), 10, "the specification knows no Dance"),
    ],
)
def test_the_first_event_that_is_not_allowed_is_shown_with_the_reason(
    bad: tuple[TraceEvent, ...], place: int, told: str
) -> None:
    done = of(bad)
    assert done.mismatch is not None
    assert (done.matched, done.mismatch.position) == (place, place)
    assert re.search(told, done.mismatch.reason), done.mismatch.reason
    assert f"decision {place + 1} of {len(bad)} is no behaviour of the specification:" in str(done)


@pytest.mark.parametrize("error", [ErrorCode.unknown_topic_id, ErrorCode.none])
def test_what_a_leader_sent_just_before_it_stopped_may_arrive_after_it_if_it_says_nothing(error: ErrorCode) -> None:
    stopped = event(0, events.Stop({("t", 0): 2}, {}, {}, noted=-1))
    outcome, held = response(0, -1, error), state(log_end_offset=2)
    late = event(1, events.ReceiveFetchResponse("t", 0, held, NOBODY, 0, SECOND, outcome, accepted=False))
    done = of((*GOOD, stopped, late))
    assert done.holds == (error is not ErrorCode.none), str(done)


@pytest.mark.parametrize(("times", "place"), [(1, None), (2, 19)])
def test_a_response_arrives_once_though_its_sender_has_ended(times: int, place: int | None) -> None:
    held = state(log_end_offset=2, high_watermark=2)
    sent = event(0, events.ReceiveFetch("t", 0, held, SECOND, response(0, 2)))
    ended = event(0, events.Crash({("t", 0): 2}, {}, {}))
    received = event(1, events.ReceiveFetchResponse("t", 0, held, NOBODY, 0, SECOND, response(0, 2), accepted=True))
    done = of((*GOOD, sent, ended, *[received] * times))
    assert (None if done.mismatch is None else done.mismatch.position) == place, str(done)


# --- high watermarks that were written down, and never told of -------------------------------------------------------

FAILED = event(0, events.LogDirectoryFailed("d", (events.LostReplica("t", 0, 2, 0),)))
HAS_COMMITTED = state(log_end_offset=2, high_watermark=2)
TOLD = event(0, events.CheckpointHighWatermark("t", 0, HAS_COMMITTED, offset=2))


@pytest.mark.parametrize("before", [(), (FAILED,)], ids=["its process dies", "its directory fails first"])
@pytest.mark.parametrize("end", [events.Crash, events.Stop])
@pytest.mark.parametrize("on_disk", [1, 2])
def test_a_high_watermark_may_be_on_the_disk_that_the_broker_did_not_come_to_tell(
    before: tuple[TraceEvent, ...], end: type[events.Crash | events.Stop], on_disk: int
) -> None:
    """A slow disk was writing it when the directory failed, or the process died; a clean stop writes the last one."""
    is_clean = end is events.Stop and not before
    trace = (*GOOD, *before, died(end, on_disk), started_with(2 if is_clean else on_disk))
    assert of(trace).holds, str(of(trace))
    unsaid = of((*GOOD, *before, died(end, 0), started_with(on_disk)))
    assert unsaid.holds == (is_clean and on_disk == 2), "the disk has what nobody has seen there"


@pytest.mark.parametrize(
    ("before", "slowed", "holds"), [((), {0}, True), ((FAILED,), set(), True), ((), set(), False), ((), {1}, False)]
)
def test_only_a_disk_that_was_slow_or_failed_has_what_the_broker_did_not_come_to_tell(
    before: tuple[TraceEvent, ...], slowed: set[int], holds: bool
) -> None:
    trace = (*GOOD, *before, died(events.Crash, 2), started_with(2))
    settings = Settings(min_insync_replicas=1, slowed=frozenset(slowed))
    assert validate(trace, "t", 0, settings).holds == holds


@pytest.mark.parametrize(("before", "on_disk"), [((), 3), ((TOLD,), 1), ((TOLD,), 0)])
def test_what_the_disk_has_is_neither_beyond_what_was_committed_nor_older_than_what_was_told(
    before: tuple[TraceEvent, ...], on_disk: int
) -> None:
    trace = (*GOOD, *before, died(events.Crash, on_disk), started_with(min(on_disk, 2)))
    mismatch = of(trace).mismatch
    assert mismatch is not None
    assert (mismatch.position, mismatch.reason.split()[0]) == (len(trace) - 1, "high_watermark")


def died(end: type[events.Crash | events.Stop], high_watermark: int) -> TraceEvent:
    """Broker 0 does, and this is what its disk has written down."""
    said: dict[str, Any] = {"noted": -1} if end is events.Stop else {}
    return event(0, end({("t", 0): 2}, {}, {("t", 0): high_watermark}, **said))


def started_with(high_watermark: int) -> TraceEvent:
    known = state(
        leader=-1,
        leader_epoch=-1,
        partition_epoch=-1,
        log_end_offset=2,
        high_watermark=high_watermark,
        isr=(),
    )
    return event(0, events.Restart("t", 0, known, NOBODY, (BATCH,), -1, "id"))


# --- the epoch of the last record that is gone ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failed", "epoch", "told"),
    [
        (FAILED, -1, None),
        (None, -1, "log_start_epoch is -1 at broker 0, 0 in the specification"),
        (FAILED, 1, "log_start_epoch is 1 at broker 0, 0 in the specification"),
        (None, 0, None),
    ],
)
def test_only_a_disk_that_failed_makes_a_log_forget_of_which_epoch_the_last_record_was(
    failed: TraceEvent | None, epoch: int, told: str | None
) -> None:
    has_deleted = state(log_end_offset=2, high_watermark=2, log_start=2)
    deleted = event(0, events.DeleteRecords("t", 0, has_deleted, 2))
    faults = (failed,) if failed is not None else ()
    died = event(0, events.Crash({("t", 0): 2}, {("t", 0): 2}, {}))
    known = state(
        leader=-1, leader_epoch=-1, partition_epoch=-1, log_end_offset=2, high_watermark=2, log_start=2, isr=()
    )
    opened = event(0, events.Restart("t", 0, known, NOBODY, (), epoch, "id"))
    done = of((*GOOD, deleted, *faults, died, opened))
    assert (None if done.mismatch is None else done.mismatch.reason) == told, str(done)


# --- traces of real clusters, tampered with --------------------------------------------------------------------------

NEEDED = {"Crash", "ReceiveAlterPartition", "ReceiveFetchResponse"}


@cache
def run() -> tuple[Options, tuple[TraceEvent, ...]]:
    """The first simulated run in whose first partition a broker crashes and the ISR changes."""
    for options in map(sparse, range(100)):
        trace = tuple(traced(options))
        if {event.name for event in trace if concerns(event, *partitions(trace)[0])} >= NEEDED:
            return options, trace
    raise AssertionError(f"no seed has all of {NEEDED}")


def real() -> tuple[TraceEvent, ...]:
    return run()[1]


def settings() -> Settings:
    options = run()[0]
    return Settings(options.min_insync_replicas, options.unclean_leader_election, options.sequences)


def test_the_trace_of_a_real_run_is_a_behaviour_of_the_specification() -> None:
    for topic, partition in partitions(real()):
        done = validate(real(), topic, partition, settings())
        assert done.holds, str(done)
        assert done.events > 100


def nth(name: str, place: int) -> int:
    """Where the given event of the first partition is in the trace; -1 is the last one."""
    first = partitions(real())[0]
    places = [index for index, one in enumerate(real()) if one.name == name and concerns(one, *first)]
    return places[place]


def tampered(place: int, **fields: Any) -> Validated:
    trace = list(real())
    trace[place] = attrs.evolve(trace[place], decision=with_fields(trace[place].decision, **fields))
    return validate(trace, *partitions(real())[0], settings())


@pytest.mark.parametrize("name", ["Append", "ReceiveFetch", "ReceiveFetchResponse", "ApplyMetadata", "SendFetch"])
@pytest.mark.parametrize("field", ["log_end_offset", "high_watermark", "leader_epoch", "partition_epoch"])
def test_a_field_that_is_one_too_large_is_found_where_it_is(name: str, field: str) -> None:
    place = nth(name, -3)
    decision = real()[place].decision
    assert isinstance(decision, events.OfReplica)
    done = tampered(place, state=attrs.evolve(decision.state, **{field: getattr(decision.state, field) + 1}))
    assert done.mismatch is not None
    assert done.mismatch.position == place


@pytest.mark.parametrize("name", ["Append", "ReceiveFetch", "ReceiveFetchResponse", "ReceiveAlterPartition"])
def test_a_decision_that_is_left_out_is_missed_later(name: str) -> None:
    place = nth(name, 0)
    trace = (*real()[:place], *real()[place + 1 :])
    done = validate(trace, *partitions(real())[0], settings())
    assert done.mismatch is not None
    assert done.mismatch.position >= place


@pytest.mark.parametrize("more", [1, 1_000])
def test_a_crash_cannot_have_kept_more_than_there_was(more: int) -> None:
    """Only a broker whose disk failed may have written what it never said; this one's machine just died."""
    place = nth("Crash", 0)
    node, partition = real()[place].node, partitions(real())[0]
    ends = [
        one.decision.state.log_end_offset
        for one in real()[:place]
        if one.node == node and concerns(one, *partition) and isinstance(one.decision, events.OfReplica)
    ]
    done = tampered(place, kept={partition: ends[-1] + more})
    assert done.mismatch is not None
    assert done.mismatch.position == place
    assert "a crash of broker" in done.mismatch.reason


# --- one kind of event after the other, in a run that has it ---------------------------------------------------------

MOVES = {Fault.REASSIGNMENT: 2, Fault.CANCELLATION: 1}
REMOVALS: dict[str, Any] = {"faults": {Fault.UNREGISTERING: 1}}
KINDS: dict[str, dict[str, Any]] = {
    "StartReassignment": {"brokers": 4, "faults": MOVES},
    "CancelReassignment": {"brokers": 4, "faults": MOVES},
    "RemoveReplica": {"brokers": 4, "faults": MOVES},
    "DeleteRecords": {"faults": {Fault.DELETION: 1}},
    "Retain": {"retention_bytes": 400},
    "AlterConfigs": {"faults": {Fault.SETTINGS: 1}},
    "LogDirectoryFailed": {"log_directories": 2, "faults": {Fault.FAILED_DISK: 1}},
    "DirectoriesOffline": {"log_directories": 2, "faults": {Fault.FAILED_DISK: 1}},
    "RefuseFetch": {"log_directories": 2, "faults": {Fault.FAILED_DISK: 1}},
    "PullMetadata": {},
    "UnregisterBroker": REMOVALS,
    "LearnBrokerEpoch": REMOVALS,
}
FIRST_SEED = {"CancelReassignment": 4, "RefuseFetch": 3}
"""The first seed with such an event, where it is not 0."""


@cache
def short_run(kind: str, seed: int) -> tuple[Options, tuple[TraceEvent, ...]]:
    """A run with what brings such events about, for all kinds that want the same."""
    options = Options(seed=seed, partitions=1, duration=2.5, fault_interval=0.25, **KINDS[kind])
    return options, tuple(traced(options))


@cache
def run_with(kind: str) -> tuple[Options, tuple[TraceEvent, ...], int]:
    """The first short run with such an event in its first partition, and where it is."""
    like = next(other for other, options in KINDS.items() if options == KINDS[kind])
    for seed in range(FIRST_SEED.get(kind, 0), 40):
        options, trace = short_run(like, seed)
        places = [place for place, event in enumerate(trace) if event.name == kind and is_of_the_first(event)]
        if places:
            return options, trace, places[-1]
    raise AssertionError(f"no seed has a {kind}")


def is_of_the_first(event: TraceEvent) -> bool:
    """Whether it is about the first partition, and changes something where it might not."""
    match event.decision:
        case events.LogDirectoryFailed(lost=lost):
            return any(one.partition == 0 for one in lost)
        case events.ControllerDecision(changed=()):
            return False
        case events.OfPartition(partition=partition) | events.PartitionDecision(partition=partition):
            return partition == 0
        case _:
            return True


def held_against(trace: Sequence[TraceEvent], options: Options) -> Validated:
    kept = Settings(options.min_insync_replicas, options.unclean_leader_election)
    return validate(trace, "orders", 0, kept)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_event_is_followed(kind: str) -> None:
    options, trace, _ = run_with(kind)
    assert held_against(trace, options).holds


def rewritten(decision: Any, **changes: Any) -> dict[str, Any]:
    """The registration that the controller wrote, with other values."""
    (changed,) = decision.changed
    registration = changed.registration._replace(**changes)
    return {"changed": (attrs.evolve(changed, registration=registration),)}


def an_epoch_less(decision: Any) -> dict[str, Any]:
    return rewritten(decision, leader_epoch=decision.changed[0].registration.leader_epoch - 1)


NOTHING_LEFT = (events.LostReplica("orders", 0, -1, 0),)
TAMPERED: tuple[tuple[str, str, Callable[[Any], dict[str, Any]]], ...] = (
    ("StartReassignment", "another target", lambda one: {"target": tuple(reversed(one.target))}),
    ("StartReassignment", "nothing is added", lambda one: rewritten(one, replicas=(0, 1, 2, 3))),
    ("StartReassignment", "nothing is written", lambda one: {"changed": ()}),
    ("CancelReassignment", "the leader epoch stays", an_epoch_less),
    ("RemoveReplica", "before the metadata say so", lambda one: {"metadata_offset": 0}),
    ("DeleteRecords", "more than was asked", lambda one: {"log_start": one.state.log_start + 1}),
    ("DeleteRecords", "what is not committed", lambda one: {"offset": one.state.high_watermark + 1}),
    ("Retain", "what is not committed", lambda one: {"log_start": one.state.high_watermark + 1}),
    ("AlterConfigs", "no setting has changed", lambda one: {"settings": ()}),
    ("AlterConfigs", "the partition epoch stays", lambda one: {"changed": ()}),
    ("LogDirectoryFailed", "a record less", lambda one: {"lost": NOTHING_LEFT}),
    ("DirectoriesOffline", "nobody is offline", lambda one: rewritten(one, offline_replicas=frozenset())),
    ("DirectoriesOffline", "another broker's", lambda one: {"broker": (one.broker + 1) % 3}),
    ("UnregisterBroker", "it stays in sync", lambda one: {"changed": ()}),
    ("UnregisterBroker", "it stays eligible", lambda one: rewritten(one, elr=frozenset({one.broker}))),
    ("UnregisterBroker", "another broker", lambda one: {"broker": (one.broker + 1) % 3}),
    ("PullMetadata", "back in the log", lambda one: {"metadata_offset": 0}),
)


@pytest.mark.parametrize(
    ("kind", "change"),
    [(kind, change) for kind, _, change in TAMPERED],
    ids=[f"{kind}: {what}" for kind, what, _ in TAMPERED],
)
def test_a_tampered_event_of_each_kind_is_found_where_it_is(kind: str, change: Callable[[Any], dict[str, Any]]) -> None:
    options, trace, place = run_with(kind)
    decision = trace[place].decision
    one = attrs.evolve(trace[place], decision=with_fields(decision, **change(decision)))
    done = held_against((*trace[:place], one, *trace[place + 1 :]), options)
    assert done.mismatch is not None
    assert done.mismatch.position == place, str(done)


def test_only_a_broker_without_the_replica_may_refuse_a_fetch_as_one() -> None:
    place = nth("ReceiveFetch", -3)
    received = real()[place].decision
    assert isinstance(received, events.ReceiveFetch)
    refused = events.RefuseFetch(received.topic, received.partition, received.fetch, received.outcome.error, "id")
    refusal = attrs.evolve(real()[place], decision=refused)
    trace = (*real()[:place], refusal, *real()[place + 1 :])
    done = validate(trace, *partitions(real())[0], settings())
    assert done.mismatch is not None
    assert done.mismatch.position == place


def test_the_settings_of_the_topic_count() -> None:
    """Held against another min.insync.replicas, the same trace is no behaviour."""
    trace = traced(Options(seed=4, min_insync_replicas=1, faults={Fault.CRASH: 1}))
    assert validate(trace, *partitions(trace)[0], Settings(1)).holds
    assert not validate(trace, *partitions(trace)[0], Settings(3)).holds


# --- what survives an unclean election -------------------------------------------------------------------------------

A, B, C, D = Record(0, 0), Record(0, 1), Record(0, 2), Record(1, 3)


def elected(new: tuple[Record, ...], committed: tuple[Record, ...], zombie: tuple[Record, ...] | None) -> int:
    """The offset below which all survives when broker 1 leads epoch 2 with log `new`."""
    (begin,) = Replication(brokers=2).initial()
    before = attrs.evolve(begin, history=History(committed=committed, unsettled=True, superseded_epoch=2))
    leader = attrs.evolve(begin.replicas[1], leader=1, leader_epoch=2, log=new)
    older = attrs.evolve(begin.replicas[0], leader=0 if zombie is not None else 1, log=zombie or ())
    after: State = attrs.evolve(before, replicas=(older, leader), history=History(committed=new))
    epoch, kept = surviving(before, after, 1)
    assert epoch == 2
    return kept


@pytest.mark.parametrize(
    ("new", "committed", "zombie", "kept"),
    [
        ((A, B), (A, B, C), None, 2),
        ((A, B, C), (A, B), None, 3),
        ((A, B, C), (A, D), None, 1),
        ((A, B, C), (A, B), (A, D), 1),
        ((A, B, C), (A,), (A, B), 2),
        ((), (A,), None, 0),
    ],
    ids=["shorter", "longer", "parted", "zombie parted", "zombie behind", "empty"],
)
def test_what_survives_ends_where_the_new_leaders_log_parts(
    new: tuple[Record, ...], committed: tuple[Record, ...], zombie: tuple[Record, ...] | None, kept: int
) -> None:
    assert elected(new, committed, zombie) == kept


@pytest.mark.parametrize("node", [0, 3000])
def test_a_request_that_failed_in_a_way_that_nobody_foresaw_is_a_finding(node: int) -> None:
    """Clients try again and see nothing of it, so that the trace has to tell."""
    place = nth("Append", 3)
    failed = TraceEvent(real()[place].time, node, events.RequestFailed("PRODUCE", "KeyError(0)"))
    done = validate((*real()[:place], failed, *real()[place:]), *partitions(real())[0], settings())
    assert done.mismatch is not None
    assert done.mismatch.position == place
    assert done.mismatch.reason == "a request failed in a way that nobody foresaw: PRODUCE: KeyError(0)"


# --- a checkpoint that a slow disk has finished late -----------------------------------------------------------------


@cache
def run_with_a_fall() -> tuple[Options, tuple[TraceEvent, ...], int]:
    """The first run in which a follower's high watermark moves back, with the log that it gives up; and where."""
    faults = {Fault.ISOLATE: 2, Fault.CRASH: 3}
    for seed in range(40):
        options = Options(
            seed=seed, partitions=1, duration=2.5, fault_interval=0.25, unclean_leader_election=True, faults=faults
        )
        trace = tuple(traced(options))
        marks: dict[int, int] = {}
        for place, one in enumerate(trace):
            if isinstance(one.decision, events.Crash):
                marks.pop(one.node, None)
            if isinstance(one.decision, events.OfReplica):
                mark = one.decision.state.high_watermark
                if mark < marks.get(one.node, 0):
                    return options, trace[: place + 1], marks[one.node]
                marks[one.node] = mark
    raise AssertionError("no seed has a high watermark that moves back")


def checkpointed(trace: tuple[TraceEvent, ...], offset: int) -> tuple[TraceEvent, ...]:
    """The trace, and then a checkpoint by the node of its last event."""
    last = trace[-1]
    assert isinstance(last.decision, events.OfReplica)
    decision = events.CheckpointHighWatermark(last.decision.topic, 0, last.decision.state, offset)
    return (*trace, attrs.evolve(last, decision=decision))


def test_a_slow_checkpoint_may_say_what_the_high_watermark_was_before_it_went_back() -> None:
    options, trace, before = run_with_a_fall()
    done = held_against(checkpointed(trace, before), options)
    assert done.holds, str(done)
    assert done.actions["CheckpointOvertaken"] > 0


def test_a_checkpoint_may_not_say_what_the_high_watermark_never_was() -> None:
    options, trace, before = run_with_a_fall()
    done = held_against(checkpointed(trace, before + 1), options)
    assert done.mismatch is not None
    assert done.mismatch.position == len(trace)
    assert f"has not been {before + 1} since" in done.mismatch.reason


def test_a_checkpoint_may_not_say_again_what_an_earlier_one_has_replaced() -> None:
    """Of two checkpoints the one that was begun later counts: the high watermark before the fall is gone for good."""
    options, trace, before = run_with_a_fall()
    now = trace[-1].decision
    assert isinstance(now, events.OfReplica)
    written = checkpointed(checkpointed(trace, before), now.state.high_watermark)
    done = held_against(checkpointed(written, before), options)
    assert done.mismatch is not None
    assert done.mismatch.position == len(written)
