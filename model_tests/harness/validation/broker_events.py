"""Decisions of a broker as a whole and faults of its process and disk, as actions of the specification."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidegauge.impl.server.trace import events
from tidegauge.model_tests.harness.validation.observed import (
    ReceiveMetadata,
    StartUnsaid,
)
from tidegauge.model_tests.harness.validation.ways import Choice, Untranslatable, actions_of, all_of, just
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication.actions import ReplicationAction
from tidegauge.spec.replication.extensions import shutdown as leaving
from tidegauge.spec.replication.extensions.directories import (
    FailDirectory,
    LoseNote,
    LoseTail,
    has_failed,
)
from tidegauge.spec.replication.extensions.reassignment import (
    assigned,
)
from tidegauge.spec.replication.extensions.retention import (
    LogStart,
    WriteLogStart,
    log_start_of,
)
from tidegauge.spec.replication.state import (
    NONE,
    Acks,
    Error,
)

if TYPE_CHECKING:
    from tidegauge.model_tests.harness.validation.validation import Validator


@actions_of.register(events.PullMetadata)
def pull_metadata(decision: events.PullMetadata, node: int, validator: Validator) -> Iterator[Choice]:
    """What the metadata log said up to where the broker has read it."""
    broker, offset = validator.index(node), decision.metadata_offset
    if offset < validator.metadata_offsets.get(broker, 0):
        return
    validator.metadata_offsets[broker] = offset
    written = validator.written_at(offset)
    assert validator.machine is not None
    yield [] if written is None else just(ReceiveMetadata(broker, validator.machine.metadata(written)))


@actions_of.register(events.ApplyMetadata)
def apply_metadata(decision: events.ApplyMetadata, node: int, validator: Validator) -> Iterator[Choice]:
    yield just(control.ApplyMetadata(validator.index(node)))


@actions_of.register(events.RemoveReplica)
def remove_replica(decision: events.RemoveReplica, node: int, validator: Validator) -> Iterator[Choice]:
    """The metadata have taken the replica away; what its broker had proposed, it asks no more."""
    assert validator.state is not None
    broker = validator.index(node)
    written = validator.written_at(decision.metadata_offset)
    if written is not None and broker not in assigned(written):
        proposed = validator.state.network.has_alter_of(broker)
        yield [
            *just(control.ApplyMetadata(broker)),
            *(just(faults.DisconnectController(broker)) if proposed else []),
        ]


@actions_of.register(events.Stop)
def stop(decision: events.Stop, node: int, validator: Validator) -> Iterator[Choice]:
    """With the controller's leave, or without it when it could not be had."""
    assert validator.state is not None
    broker = validator.index(node)
    action = leaving.Stop(broker)
    granted = validator.machine is not None and not action.guard(validator.machine, validator.state)
    replica, kept = validator.state.replicas[broker], kept_of(decision, validator)
    stop = action if granted else leaving.StopUnasked(broker)
    if has_failed(replica):
        lost = [LoseTail(broker, kept)] if kept < replica.log_end_offset else []
        yield all_of(*written_start(decision, validator, broker), stop, *lost)
    else:
        noteless = [LoseNote(broker)] if node in validator.failed_directories else []
        yield all_of(*started(validator, broker), stop, *noteless)


@actions_of.register(events.Crash)
def crash(decision: events.Crash, node: int, validator: Validator) -> Iterator[Choice]:
    """What the disk kept; a log start may be on it though nobody had to write it down."""
    broker = validator.index(node)
    died = faults.Crash(broker, kept_of(decision, validator))
    yield all_of(*started(validator, broker), *written_start(decision, validator, broker), died)


@actions_of.register(events.Pause)
def pause(decision: events.Pause, node: int, validator: Validator) -> Iterator[Choice]:
    broker = validator.index(node)
    yield all_of(*started(validator, broker), faults.Pause(broker))


@actions_of.register(events.Restart)
def restart(decision: events.Restart, node: int, validator: Validator) -> Iterator[Choice]:
    yield just(faults.Restart(validator.index(node)))


@actions_of.register(events.Resume)
def resume(decision: events.Resume, node: int, validator: Validator) -> Iterator[Choice]:
    """To go on means nothing to a broker that wasn't stopped."""
    assert validator.state is not None
    broker = validator.index(node)
    yield just(faults.Resume(broker)) if validator.state.replicas[broker].paused else []


@actions_of.register(events.LogDirectoryFailed)
def log_directory_failed(decision: events.LogDirectoryFailed, node: int, validator: Validator) -> Iterator[Choice]:
    """A disk that failed during a write has taken some of it, which no decision says: the end of the log shows it.

    The broker was handling a fetch response, or appending a producer's batch, which it did not acknowledge.
    """
    assert validator.state is not None
    broker = validator.index(node)
    lost = {(one.topic, one.partition): one.log_end_offset for one in decision.lost}
    end = lost.get((validator.topic, validator.partition))
    if end is None:
        yield []
        return
    fails = FailDirectory(broker)
    unsaid = end - validator.state.replicas[broker].log_end_offset
    if unsaid == 0:
        yield just(fails)
    for response in validator.state.network.fetch_responses:
        cut = response.diverging_end_offset != NONE or response.error is Error.OFFSET_OUT_OF_RANGE
        if response.request.follower == broker and (cut or 0 < unsaid <= len(response.records)):
            yield all_of(protocol.ReceiveFetchResponse(response), fails)
    if unsaid > 0:
        yield all_of(*[protocol.Append(broker, Acks.NOTHING)] * unsaid, fails)


@actions_of.register(events.Flush)
def flush(decision: events.Flush, node: int, validator: Validator) -> Iterator[Choice]:
    yield just(faults.Flush(validator.index(node)))


@actions_of.register(events.CheckpointHighWatermark)
def checkpoint_high_watermark(
    decision: events.CheckpointHighWatermark, node: int, validator: Validator
) -> Iterator[Choice]:
    yield just(faults.CheckpointHighWatermark(validator.index(node)))


@actions_of.register(events.RequestFailed)
def request_failed(decision: events.RequestFailed, node: int, validator: Validator) -> Iterator[Choice]:
    raise Untranslatable(f"a request failed in a way that nobody foresaw: {decision.api}: {decision.error}")


def started(validator: Validator, broker: int) -> Iterator[ReplicationAction]:
    """A broker without a log of the partition starts again without a word on it."""
    assert validator.state is not None
    if not validator.state.replicas[broker].running:
        yield faults.Restart(broker)


def written_start(
    decision: events.Crash | events.Stop, validator: Validator, broker: int
) -> Iterator[ReplicationAction]:
    assert validator.state is not None
    replica, start = validator.state.replicas[broker], decision.starts.get((validator.topic, validator.partition), 0)
    if has_failed(replica) and start > log_start_of(replica):
        yield StartUnsaid(broker, start)
    elif start > LogStart.of(replica).checkpoint:
        yield WriteLogStart(broker, start)


def kept_of(decision: events.Crash | events.Stop, validator: Validator) -> int:
    """How much of this partition's log survived."""
    return decision.kept.get((validator.topic, validator.partition), 0)
