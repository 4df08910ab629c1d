"""Decisions of a broker as a whole and faults of its process and disk, as actions of the specification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegauge.impl.server.trace import events
from tidegauge.model_tests.harness.validation.followed import Followed
from tidegauge.model_tests.harness.validation.incarnations import is_namesake
from tidegauge.model_tests.harness.validation.leader_events import retained
from tidegauge.model_tests.harness.validation.observed import (
    CheckpointOvertaken,
    CheckpointUnsaid,
    EpochForgotten,
    ForgetFollowers,
    NoteOutdated,
    ReceiveMetadata,
)
from tidegauge.model_tests.harness.validation.ways import Choice, Untranslatable, actions_of, all_of, just
from tidegauge.spec.replication import actions as protocol
from tidegauge.spec.replication import control, faults
from tidegauge.spec.replication.actions import ReplicationAction
from tidegauge.spec.replication.extensions import shutdown as leaving
from tidegauge.spec.replication.extensions.damage import DamageLog, LoseEnd, RepairLog, damage_of
from tidegauge.spec.replication.extensions.directories import (
    FailDirectory,
    LeftLog,
    LoseNote,
    LoseTail,
    has_failed,
)
from tidegauge.spec.replication.extensions.lost_logs import LoseLog
from tidegauge.spec.replication.extensions.reassignment import (
    ReplicaList,
    assigned,
)
from tidegauge.spec.replication.extensions.retention import (
    LogStart,
    WriteLogStart,
    knows_below,
    log_start_of,
)
from tidegauge.spec.replication.extensions.running_damage import MeetDamage, RepairWhileRunning, Withdrawn, is_withdrawn
from tidegauge.spec.replication.extensions.shutdown import CleanStop
from tidegauge.spec.replication.extensions.unregistering import LearnBrokerEpoch
from tidegauge.spec.replication.state import (
    NONE,
    Acks,
    Error,
    Replica,
)


@actions_of.register(events.PullMetadata)
def pull_metadata(decision: events.PullMetadata, node: int, followed: Followed) -> Iterator[Choice]:
    """What the metadata log said up to where the broker has read it."""
    broker, offset = followed.index(node), decision.metadata_offset
    if offset < followed.metadata_offsets.get(broker, 0):
        return
    followed.metadata_offsets[broker] = offset
    written = followed.written_at(offset)
    assert followed.machine is not None
    if written is None:
        yield []
        return
    metadata = followed.machine.metadata(written)
    if broker not in (ReplicaList.of(metadata).replicas or (broker,)):
        followed.without_room.discard(node)  # what is taken away waits for nothing
    yield just(ReceiveMetadata(broker, metadata))


@actions_of.register(events.SendRegistration)
def send_registration(decision: events.SendRegistration, node: int, followed: Followed) -> Iterator[Choice]:
    """The specification's registrations arrive as they are sent; `registrations` looks at the reason."""
    yield []


@actions_of.register(events.LearnBrokerEpoch)
def learn_broker_epoch(decision: events.LearnBrokerEpoch, node: int, followed: Followed) -> Iterator[Choice]:
    """The specification's process has the epoch at once, unless it had another one before."""
    assert followed.state is not None
    broker, broker_epoch = followed.index(node), followed.incarnation(node, decision.broker_epoch)
    knows = followed.state.replicas[broker].broker_epoch == broker_epoch
    yield [] if knows else just(LearnBrokerEpoch(broker, broker_epoch))


@actions_of.register(events.ApplyMetadata)
def apply_metadata(decision: events.ApplyMetadata, node: int, followed: Followed) -> Iterator[Choice]:
    yield just(control.ApplyMetadata(followed.index(node)))


@actions_of.register(events.RemoveReplica)
def remove_replica(decision: events.RemoveReplica, node: int, followed: Followed) -> Iterator[Choice]:
    """The metadata have taken the replica away; what its broker had proposed, it asks no more.

    Where its log could not be deleted, the directory had failed before.
    """
    assert followed.state is not None
    broker = followed.index(node)
    written = followed.written_at(decision.metadata_offset)
    if written is not None and broker not in assigned(written):
        proposed = followed.state.network.has_alter_of(broker)
        yield [
            *(just(FailDirectory(broker)) if decision.is_left else []),
            *just(control.ApplyMetadata(broker)),
            *(just(faults.DisconnectController(broker)) if proposed else []),
        ]


@actions_of.register(events.Stop)
def stop(decision: events.Stop, node: int, followed: Followed) -> Iterator[Choice]:
    """With the controller's leave, or without it when it could not be had.

    A log that waits for room cannot be flushed: no stop is noted, and it is left as a crash leaves it.
    """
    assert followed.state is not None
    broker = followed.index(node)
    if node in followed.without_room and decision.noted == NONE:
        died = faults.Crash(broker, kept_of(decision, node, followed))
        yield all_of(*started(followed, broker), *written_before(decision, followed, broker), died)
        return
    action = leaving.Stop(broker)
    granted = followed.machine is not None and not action.guard(followed.machine, followed.state)
    replica, kept = followed.state.replicas[broker], kept_of(decision, node, followed)
    stop = action if granted else leaving.StopUnasked(broker)
    disk = disk_of(followed, broker)
    if has_failed(disk) and replica.running:
        lost = [LoseTail(broker, kept)] if kept < disk.log_end_offset else []
        yield all_of(*written_before(decision, followed, broker), stop, *lost)
    else:
        yield all_of(*started(followed, broker), stop, *noted_otherwise(decision, node, followed))


def noted_otherwise(decision: events.Stop, node: int, followed: Followed) -> Iterator[ReplicationAction]:
    """The disk has no note of the stop, for a directory had failed or lacked room, or one of an older epoch."""
    assert followed.state is not None
    broker = followed.index(node)
    replica = followed.state.replicas[broker]
    if not replica.running or replica.broker_epoch == NONE or is_withdrawn(replica):
        return
    if decision.noted == NONE:
        yield LoseNote(broker)
    elif followed.incarnation(node, decision.noted) != replica.broker_epoch:
        learned = followed.registrations.learned(node)
        if decision.noted != learned:
            raise Untranslatable(f"broker {node} notes epoch {decision.noted} as it stops, and has learned {learned}")
        yield NoteOutdated(broker)


@actions_of.register(events.Crash)
def crash(decision: events.Crash, node: int, followed: Followed) -> Iterator[Choice]:
    """What the disk kept; a log start or a high watermark may be on it that the broker did not come to tell."""
    broker = followed.index(node)
    assert followed.state is not None
    died = faults.Crash(broker, kept_of(decision, node, followed))
    yield all_of(*started(followed, broker), *written_before(decision, followed, broker), died)


@actions_of.register(events.Pause)
def pause(decision: events.Pause, node: int, followed: Followed) -> Iterator[Choice]:
    broker = followed.index(node)
    yield all_of(*started(followed, broker), faults.Pause(broker))


@actions_of.register(events.Restart)
def restart(decision: events.Restart, node: int, followed: Followed) -> Iterator[Choice]:
    """A log that ends earlier than what was flushed, and shows no damage, is one whose disk has lied about a sync."""
    assert followed.state is not None
    broker, end = followed.index(node), decision.state.log_end_offset
    ends_early = end < followed.state.replicas[broker].log_end_offset and node in followed.may_have_lied
    lied = [LoseEnd(broker, end)] if ends_early else []
    yield all_of(*damaged(followed, node, *lied), *forgotten(decision, node, followed), faults.Restart(broker))


def forgotten(decision: events.Restart, node: int, followed: Followed) -> Iterator[ReplicationAction]:
    """A disk that failed while the log started over, or that damages, may have left no epoch of what is gone."""
    assert followed.state is not None
    broker, start = followed.index(node), decision.state.log_start
    replica = followed.state.replicas[broker]
    fails = node in followed.failed_before or node in (followed.settings.damaging or ())
    known = replica.log[start - 1].epoch if 0 < start <= replica.log_end_offset and knows_below(replica) else NONE
    if fails and decision.log_start_epoch == NONE != known and start == decision.state.log_end_offset:
        yield EpochForgotten(broker)


@actions_of.register(events.Resume)
def resume(decision: events.Resume, node: int, followed: Followed) -> Iterator[Choice]:
    """To go on means nothing to a broker that wasn't stopped."""
    assert followed.state is not None
    broker = followed.index(node)
    yield just(faults.Resume(broker)) if followed.state.replicas[broker].paused else []


@actions_of.register(events.ReplicaDamaged)
@actions_of.register(events.LogNotOpened)
@actions_of.register(events.LogDirectoryFailed)
def log_directory_failed(decision: events.LogDirectoryFailed, node: int, followed: Followed) -> Iterator[Choice]:
    """A disk that failed during a write has taken some of it, which no decision says: the end of the log shows it.

    The broker was handling a fetch response, or appending a producer's batch, which it did not acknowledge.
    """
    assert followed.state is not None
    broker = followed.index(node)
    lost = {(one.topic, one.partition): one.log_end_offset for one in decision.lost}
    if (followed.topic, followed.partition) not in lost:
        yield []
        return
    fails, said_end = [FailDirectory(broker), *read_before(followed, broker)], lost[followed.topic, followed.partition]
    known_end = followed.state.replicas[broker].log_end_offset
    end = known_end if said_end is None else said_end
    unsaid = end - known_end
    next_end = followed.found[node][-1] if followed.found.get(node) else end
    if unsaid == 0:
        yield all_of(*fails)
    for response in followed.state.network.fetch_responses:
        starts_over = response.error is Error.OFFSET_OUT_OF_RANGE
        cut = response.diverging_end_offset != NONE or starts_over
        is_unwritten = next_end != end if starts_over else cut and next_end > end
        if response.request.follower == broker and is_unwritten:
            yield all_of(*fails)  # nothing of the cut, or of the new log, has reached the disk
        if response.request.follower == broker and (cut or 0 < unsaid <= len(response.records)):
            yield all_of(protocol.ReceiveFetchResponse(response), *fails)
    if unsaid > 0:
        yield all_of(*[protocol.Append(broker, Acks.NOTHING)] * unsaid, *fails)


@actions_of.register(events.WaitForRoom)
def wait_for_room(_: events.WaitForRoom, node: int, followed: Followed) -> Iterator[Choice]:
    """No action: the replica does nothing until it has room. Meanwhile its broker may refuse fetches."""
    followed.without_room.add(node)
    yield []


@actions_of.register(events.HasRoom)
def has_room(decision: events.HasRoom, node: int, followed: Followed) -> Iterator[Choice]:
    """The replica goes on with the log and the high watermark that it had; a leader knows of no follower any more.

    A follower may have met its lack of room behind a cut that its leader ordered: the log shows it, and no event.
    """
    assert followed.state is not None
    broker, made = followed.index(node), retained_unsaid(followed, node, decision.state.log_start)
    replica = followed.state.replicas[broker]
    if replica.leader == broker:
        made.append(ForgetFollowers(broker))
    followed.without_room.discard(node)
    if decision.state.log_end_offset >= replica.log_end_offset:
        yield all_of(*made) if made else []
        return
    for response in followed.state.network.fetch_responses:
        cuts = response.diverging_end_offset != NONE or response.error is Error.OFFSET_OUT_OF_RANGE
        if response.request.follower == broker and cuts:
            yield all_of(protocol.ReceiveFetchResponse(response), *made)


def retained_unsaid(followed: Followed, node: int, start: int) -> list[ReplicationAction]:
    """Retention met a disk without descriptors behind segments that it had removed: the log shows it, and no event."""
    assert followed.state is not None
    broker = followed.index(node)
    is_unsaid = node in followed.without_room and start > log_start_of(followed.state.replicas[broker])
    return [retained(followed, broker, start)] if is_unsaid else []


def read_before(followed: Followed, broker: int) -> Iterator[ReplicationAction]:
    """A directory failed while its broker acted on metadata. They have been read, though the replica never says so.

    What they take away is not deleted then: the directory keeps it.
    """
    assert followed.state is not None
    pulled = followed.state.replicas[broker].pulled
    if pulled is not None and broker in ReplicaList.of(pulled).replicas:
        yield from (ReceiveMetadata(broker, pulled), control.ApplyMetadata(broker))


@actions_of.register(events.DamageFound)
def damage_found(decision: events.DamageFound, node: int, followed: Followed) -> Iterator[Choice]:
    """What the disk has done to logs while their broker was down; a log that was cut ends earlier than it was left."""
    assert followed.state is not None
    broker = followed.index(node)
    replica = followed.state.replicas[broker]
    if replica.running:
        yield []
        return
    noteless = [LoseNote(broker)] if CleanStop.of(replica).broker_epoch != NONE and decision.is_suspect else []
    mine = [one for one in decision.damaged if (one.topic, one.partition) == (followed.topic, followed.partition)]
    damage: list[ReplicationAction] = []
    for one in mine:
        if one.is_gone and replica.log:
            damage.append(LoseLog(broker))
        elif one.log_end_offset < replica.log_end_offset:
            damage.append(LoseEnd(broker, one.log_end_offset))
        if one.start < one.log_end_offset:
            damage.append(DamageLog(broker, one.start))
    yield all_of(*noteless, *damaged(followed, node, *damage))


def damaged(followed: Followed, node: int, *damage: ReplicationAction) -> Sequence[ReplicationAction]:
    """What a disk has done. Raises Untranslatable where the broker's disk is known to do no such thing."""
    if damage and followed.settings.damaging is not None and node not in followed.settings.damaging:
        words = "; ".join(map(str, damage))
        raise Untranslatable(f"the disk of broker {node} keeps what it has, and yet: {words}")
    return damage


@actions_of.register(events.WithdrawReplica)
def withdraw_replica(decision: events.WithdrawReplica, node: int, followed: Followed) -> Iterator[Choice]:
    broker = followed.index(node)
    yield all_of(*damaged(followed, node, MeetDamage(broker, decision.start)))


@actions_of.register(events.RepairReplica)
def repair_replica(decision: events.RepairReplica, node: int, followed: Followed) -> Iterator[Choice]:
    """That of a new process, or that of one which has met the damage. What it leaves may be damaged as well."""
    assert followed.state is not None
    broker = followed.index(node)
    replica = followed.state.replicas[broker]
    known = Withdrawn.of(replica).start if is_withdrawn(replica) else damage_of(replica)
    repair = just(RepairWhileRunning(broker) if is_withdrawn(replica) else RepairLog(broker))
    end = decision.state.log_end_offset
    more = [MeetDamage(broker, end)] if end < min(known, replica.log_end_offset) else []
    yield [*repair, *all_of(*damaged(followed, node, *more)), *(just(RepairWhileRunning(broker)) if more else [])]


@actions_of.register(events.Flush)
def flush(decision: events.Flush, node: int, followed: Followed) -> Iterator[Choice]:
    yield just(faults.Flush(followed.index(node)))


@actions_of.register(events.CheckpointHighWatermark)
def checkpoint_high_watermark(
    decision: events.CheckpointHighWatermark, node: int, followed: Followed
) -> Iterator[Choice]:
    """The disk may have taken its time: then it has what the high watermark was when it began.

    Since then it may have moved back, too: the log was cut, or a new leader knows less.
    """
    assert followed.state is not None
    broker, offset = followed.index(node), decision.offset
    replica = followed.state.replicas[broker]
    if offset == replica.checkpoint:
        yield []
    elif offset == replica.high_watermark:
        yield just(faults.CheckpointHighWatermark(broker))
    elif offset not in followed.may_write.get(node, ()):
        raise Untranslatable(f"the high watermark of broker {node} has not been {offset} since one was written down")
    else:
        yield just(CheckpointOvertaken(broker, offset))


@actions_of.register(events.RequestFailed)
def request_failed(decision: events.RequestFailed, node: int, followed: Followed) -> Iterator[Choice]:
    raise Untranslatable(f"a request failed in a way that nobody foresaw: {decision.api}: {decision.error}")


def started(followed: Followed, broker: int) -> Iterator[ReplicationAction]:
    """A broker without a log of the partition starts again without a word on it."""
    assert followed.state is not None
    if not followed.state.replicas[broker].running:
        yield faults.Restart(broker)


def written_before(
    decision: events.Crash | events.Stop, followed: Followed, broker: int
) -> Iterator[ReplicationAction]:
    """What the disk has of a log, besides its records, that no decision told."""
    assert followed.state is not None
    if LeftLog.of(followed.state.replicas[broker]).replica is not None:
        return  # the process has written nothing of it since it was taken away
    start = decision.starts.get((followed.topic, followed.partition), 0)
    if removed := retained_unsaid(followed, followed.broker(broker), start):
        yield from removed
    else:
        yield from written_start(decision, followed, broker)
    replica = followed.state.replicas[broker]
    offset = decision.high_watermarks.get((followed.topic, followed.partition), 0)
    if replica.checkpoint < offset <= replica.high_watermark and followed.may_have_written_unsaid(
        followed.broker(broker)
    ):
        yield CheckpointUnsaid(broker, offset)


def written_start(decision: events.Crash | events.Stop, followed: Followed, broker: int) -> Iterator[ReplicationAction]:
    assert followed.state is not None
    replica, start = followed.state.replicas[broker], decision.starts.get((followed.topic, followed.partition), 0)
    if start > LogStart.of(replica).checkpoint:
        yield WriteLogStart(broker, start)


def disk_of(followed: Followed, broker: int) -> Replica:
    """The replica that a broker's disk has; that of one that was taken away from a failed directory, too."""
    assert followed.state is not None
    assert followed.machine is not None
    return followed.machine.on_disk(followed.state.replicas[broker])


def kept_of(decision: events.Crash | events.Stop, node: int, followed: Followed) -> int:
    """How much of this partition's log survived.

    What is flushed behind damage stays, though nobody can read it. Of a disk that damages, what the next process finds
    says the rest.
    """
    kept = decision.kept.get((followed.topic, followed.partition))
    assert followed.state is not None
    replica = disk_of(followed, followed.index(node))
    if (
        kept is None
        and has_failed(replica)
        and any(
            is_namesake(topic, followed.topic) and partition == followed.partition for topic, partition in decision.kept
        )
    ):
        return replica.flushed  # the next topic of the name has a log in another directory: that one is told
    kept = kept or 0
    damages = followed.settings.damaging is not None and node in followed.settings.damaging
    if damages or damage_of(replica) != NONE:
        found = followed.found[node][-1]
        if found < kept and damage_of(replica) == NONE and followed.is_damaged_after_end(node):
            return max(found, replica.flushed)  # the disk has taken a tail that was not flushed: nobody can tell
        kept = max(kept, replica.flushed, found)
        return min(kept, replica.log_end_offset)
    return kept
