"""What coordinators decide is an action of the specification; a decision that is none ends the validation there."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import attrs
import pytest

from tidegauge.impl.coordinators.transactions.metadata import TransactionStatus
from tidegauge.impl.metadata.topic_names import TRANSACTION_STATE
from tidegauge.impl.server.trace import coordination, events
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.harness.simulation.options import Fault, Options
from tidegauge.model_tests.harness.simulation.simulation import traced
from tidegauge.model_tests.harness.simulation.transacting_options import draw_transacting
from tidegauge.model_tests.harness.validation.coordinators import ValidatedCoordinators, validate_coordinators

OPTIONS = Options(
    seed=7,
    duration=0.8,
    transactions=2,
    transaction_timeout_ms=150,
    max_epoch=6,
    partitions=2,
    producers=1,
    consumers=0,
    readers=0,
    pause_between_operations=0.04,
    dense=True,
    faults={Fault.CRASH: 1},
    fault_interval=0.2,
)
"""Crashes, zombies, time-outs, and few epochs."""
Trace = list[TraceEvent]


@cache
def whole() -> tuple[TraceEvent, ...]:
    return tuple(traced(OPTIONS))


def validated(trace: Trace) -> ValidatedCoordinators:
    return validate_coordinators(trace, max_epoch=OPTIONS.max_epoch)


def first(kind: type[events.Decision], which: Callable[[Any], bool] = lambda decision: True) -> int:
    """The place of the first decision of a kind."""
    return next(place for place, event in enumerate(whole()) if type(event.decision) is kind and which(event.decision))


def with_decision(place: int, **values: Any) -> Trace:
    """The trace with other values in one decision."""
    trace = list(whole())
    event = trace[place]
    decision = type(event.decision)(**{**vars(event.decision), **values})
    trace[place] = attrs.evolve(event, decision=decision)
    return trace


def without(place: int) -> Trace:
    return [event for other, event in enumerate(whole()) if other != place]


def writes(decision: Any) -> bool:
    return decision.written is not None


def test_every_decision_of_coordinators_under_faults_is_an_action_of_the_specification() -> None:
    found = validated(list(whole()))
    assert found.holds, str(found)
    assert found.matched == found.events == sum(found.actions.values())
    assert {
        *("FailOver", "LoadIds", "ReceiveInit", "ReceiveAdd", "ReceiveEnd", "ExpireTransaction", "Complete"),
        *("AppendRecord", "CommitRecord", "AcknowledgeMarker"),
    } <= set(found.actions)
    assert {one.decision.name for one in found.decided.values()} == {"COMMIT", "ABORT"}
    replaced = [one.decision.written for one in whole() if isinstance(one.decision, coordination.ReceiveEnd)]
    assert any(record is not None and record.next_producer_id >= 0 for record in replaced), "no epochs are used up"


def other_epoch() -> Trace:
    place = first(coordination.ReceiveInit, writes)
    record = whole()[place].decision.written  # type: ignore[attr-defined]
    return with_decision(place, written=attrs.evolve(record, epoch=record.epoch + 1))


def other_end() -> Trace:
    place = first(coordination.ReceiveEnd, lambda one: writes(one) and one.request.is_commit)
    record = whole()[place].decision.written  # type: ignore[attr-defined]
    return with_decision(place, written=attrs.evolve(record, status=TransactionStatus.PREPARE_ABORT))


def other_error() -> Trace:
    place = first(coordination.ReceiveAdd, writes)
    refused = whole()[first(coordination.ReceiveInit, lambda one: not writes(one))].decision
    return with_decision(place, error=refused.error)  # type: ignore[attr-defined]


def nothing_written() -> Trace:
    return with_decision(first(coordination.ReceiveAdd, writes), written=None)


def too_early() -> Trace:
    place = first(coordination.ExpireTransaction)
    trace = list(whole())
    trace[place] = attrs.evolve(trace[place], time=trace[place].decision.written.start_ms)  # type: ignore[attr-defined]
    return trace


def forgotten_id() -> Trace:
    place = first(coordination.LoadIds, lambda one: one.ids)
    return with_decision(place, ids=whole()[place].decision.ids[1:])  # type: ignore[attr-defined]


def loaded_otherwise() -> Trace:
    place = first(coordination.LoadIds, lambda one: one.ids)
    (name, record), *others = whole()[place].decision.ids  # type: ignore[attr-defined]
    return with_decision(place, ids=((name, attrs.evolve(record, epoch=record.epoch + 1)), *others))


def told_before_it_was_committed() -> Trace:
    place = first(coordination.CommitRecord)
    name = whole()[place].decision.transactional_id  # type: ignore[attr-defined]
    appended = first(coordination.AppendRecord, lambda one: one.transactional_id == name)
    trace = without(place)
    return [*trace[: appended + 2], whole()[place], *trace[appended + 2 :]]


def another_offset() -> Trace:
    place = first(coordination.AppendRecord)
    return with_decision(place, offset=whole()[place].decision.offset + 1)  # type: ignore[attr-defined]


def marker_of_another_end() -> Trace:
    place = first(coordination.AcknowledgeMarker)
    return with_decision(place, epoch=whole()[place].decision.epoch + 7)  # type: ignore[attr-defined]


def more_left() -> Trace:
    place = first(coordination.AcknowledgeMarker)
    decision = whole()[place].decision
    return with_decision(place, left=(*decision.left, *decision.partitions))  # type: ignore[attr-defined]


def marker_of_nobody() -> Trace:
    return _with_batch(lambda batch: batch.is_marker)


def record_of_nobody() -> Trace:
    return _with_batch(lambda batch: batch.is_transactional and not batch.is_marker)


def _with_batch(which: Callable[[events.LoggedBatch], bool]) -> Trace:
    place = first(events.Append, lambda one: one.topic != TRANSACTION_STATE and which(one.batches[0]))
    (batch,) = whole()[place].decision.batches  # type: ignore[attr-defined]
    return with_decision(place, batches=(batch._replace(producer_epoch=99),))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (other_epoch, "it writes Metadata"),
        (other_end, "it writes Metadata"),
        (nothing_written, "it writes nothing, the specification Metadata"),
        (other_error, "the response is"),
        (too_early, "is not over"),
        (forgotten_id, "the specification"),
        (loaded_otherwise, "it loads Metadata"),
        (told_before_it_was_committed, "is not committed"),
        (another_offset, "no coordinator has written what is appended"),
        (marker_of_another_end, "does not have the marker that it acknowledges"),
        (more_left, "have yet to acknowledge it, in the specification"),
        (marker_of_nobody, "no prepare record has"),
        (record_of_nobody, "its coordinator does not know"),
        (lambda: without(first(coordination.AcknowledgeMarker)), "the guard fails: no transaction has all its markers"),
        (lambda: without(first(coordination.CommitRecord)), "the specification"),
        (lambda: without(first(coordination.FailOver)), "does not coordinate that partition"),
    ],
)
def test_a_decision_that_is_none_of_the_specification_is_found(wrong: Callable[[], Trace], words: str) -> None:
    found = validated(wrong())
    assert not found.holds
    assert words in str(found), str(found)
    assert "is no action of the specification" in str(found)


def test_what_a_value_of_version_0_does_not_say_a_coordinator_that_loads_it_does_not_know() -> None:
    options = attrs.evolve(draw_transacting(1), transaction_versions=(0,))
    trace = traced(options)
    assert validate_coordinators(trace, max_epoch=options.max_epoch).holds
    said_all = [
        attrs.evolve(event, decision=type(event.decision)(**{**vars(event.decision), "value_version": 1}))
        if isinstance(event.decision, coordination.AppendRecord)
        else event
        for event in trace
    ]
    found = validate_coordinators(said_all, max_epoch=options.max_epoch)
    assert found.mismatch is not None
    assert "LoadIds" in found.mismatch
    assert "its log says" in found.mismatch
